//! Reads pages for models: text, Markdown, links. It is pure code over what any server may send, so each
//! step is bounded and none fails on bad input.

mod article;
mod charset;
mod kind;
mod links;
mod markdown;
mod token_sink;
mod tree;

use crate::domain::characters::beginning;
use kind::{NotTextError, PageKind};
pub(in crate::tools) use links::PageLink;
use markdown::TEXT_BYTES;
pub(in crate::tools) use markdown::TextFormat;
pub(in crate::tools) use tree::{HtmlNodeId, HtmlTree};
use url::Url;

/// Links of one result.
pub(in crate::tools) const MAX_LINKS: usize = 50;

/// A page that can be read.
#[derive(Debug)]
pub(in crate::tools) struct WebPage {
    content: PageContent,
    base: Url,
    is_cut: bool,
}

#[derive(Debug)]
enum PageContent {
    Html(HtmlTree),
    Text(String),
}

impl WebPage {
    /// Reads the body of a response with this content type and address.
    pub(in crate::tools) fn read(
        body: &[u8],
        content_type: Option<&str>,
        url: &Url,
    ) -> Result<Self, NotTextError> {
        let kind = kind::of(body, content_type)?;
        let decoded = charset::decoded(body, content_type, kind == PageKind::Html);
        let is_decoded_part = decoded.is_cut;
        let (content, is_cut) = match kind {
            PageKind::Text => {
                let text = beginning(&decoded.text, TEXT_BYTES);
                let is_cut = text.len() < decoded.text.len();
                (PageContent::Text(token_sink::readable(text.as_bytes())), is_cut)
            }
            PageKind::Html => {
                let tree = HtmlTree::parse(&decoded.text);
                let is_cut = tree.is_cut();
                (PageContent::Html(tree), is_cut)
            }
        };
        let base = match &content {
            PageContent::Html(tree) => links::base(tree, url),
            PageContent::Text(_) => url.clone(),
        };
        Ok(Self { content, base, is_cut: is_cut || is_decoded_part })
    }

    /// The main text, without menus and the like.
    pub(in crate::tools) fn readable(&self, format: TextFormat) -> String {
        match &self.content {
            PageContent::Text(text) => text.clone(),
            PageContent::Html(tree) => {
                let article = article::find(tree);
                markdown::write(tree, &article, format, &self.base)
            }
        }
    }

    pub(in crate::tools) fn title(&self) -> Option<String> {
        let tree = self.tree()?;
        let meta = || article::meta(tree, &["og:title", "twitter:title"]);
        article::first_text(tree, "title").or_else(meta).or_else(|| article::first_text(tree, "h1"))
    }

    pub(in crate::tools) fn description(&self) -> Option<String> {
        article::meta(self.tree()?, &["description", "og:description", "twitter:description"])
    }

    /// The first links, at most `max`.
    pub(in crate::tools) fn links(&self, max: usize) -> Vec<PageLink> {
        self.tree().map(|tree| links::of(tree, &self.base, max)).unwrap_or_default()
    }

    /// Whether only a part was read.
    pub(in crate::tools) fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn tree(&self) -> Option<&HtmlTree> {
        match &self.content {
            PageContent::Html(tree) => Some(tree),
            PageContent::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod tests;
