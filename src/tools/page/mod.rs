//! Pages as models read them. Owns the way from bytes to text, Markdown, links and parts; refuses the network: this is pure
//! code over whatever a server sent, so every step is bounded and none can fail on bad input.

mod article;
mod charset;
mod kind;
mod links;
mod markdown;
mod tree;

use kind::Kind;
pub(super) use links::Link;
pub(super) use tree::{NodeId, Tree};
use url::Url;

/// The most links of a page.
pub(super) const LINKS: usize = 50;
/// What separates words, however many there are.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A page that can be read.
#[derive(Debug)]
pub(super) struct Page {
    content: Content,
    base: Url,
}

#[derive(Debug)]
enum Content {
    Html(Tree),
    Text(String),
}

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Paragraphs, lists and tables without marks.
    Text,
    /// With headings, links and emphasis.
    Markdown,
}

/// It holds no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not text but {kind}, {bytes} bytes")]
pub(super) struct NotText {
    /// The content type.
    pub(super) kind: String,
    /// Of the body.
    pub(super) bytes: usize,
}

impl Page {
    /// Reads a body that came with this content type from this address.
    pub(super) fn read(body: &[u8], content_type: Option<&str>, url: &Url) -> Result<Self, NotText> {
        let content = match kind::of(body, content_type)? {
            Kind::Text => Content::Text(charset::decoded(body, content_type, false)),
            Kind::Html => Content::Html(Tree::parse(&charset::decoded(body, content_type, true))),
        };
        let base = match &content {
            Content::Html(tree) => links::base(tree, url),
            Content::Text(_) => url.clone(),
        };
        Ok(Self { content, base })
    }

    /// What there is to read, without menus and the like.
    pub(super) fn readable(&self, form: Form) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Html(tree) => {
                let article = article::find(tree);
                markdown::written(tree, &article, form, &self.base)
            }
        }
    }

    /// Its title, where it has one.
    pub(super) fn title(&self) -> Option<String> {
        let tree = self.tree()?;
        let meta = || article::meta(tree, &["og:title", "twitter:title"]);
        article::first_text(tree, "title").or_else(meta).or_else(|| article::first_text(tree, "h1"))
    }

    /// What it says of itself.
    pub(super) fn description(&self) -> Option<String> {
        article::meta(self.tree()?, &["description", "og:description", "twitter:description"])
    }

    /// Where it leads to: at most so many.
    pub(super) fn links(&self, most: usize) -> Vec<Link> {
        self.tree().map(|tree| links::of(tree, &self.base, most)).unwrap_or_default()
    }

    /// Whether it is longer than what was read.
    pub(super) fn is_cut(&self) -> bool {
        self.tree().is_some_and(Tree::is_cut)
    }

    fn tree(&self) -> Option<&Tree> {
        match &self.content {
            Content::Html(tree) => Some(tree),
            Content::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
