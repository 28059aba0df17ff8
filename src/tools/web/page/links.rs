//! The links of a page, as whole http and https addresses.

use super::tree::HtmlTree;
use crate::tools::text::collapse_whitespace;
use serde::Serialize;
use std::collections::HashSet;
use url::Url;

/// The longest text of a link, characters.
const TEXT_CHARS: usize = 200;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::tools) struct PageLink {
    pub(in crate::tools) text: String,
    /// An absolute address.
    pub(in crate::tools) href: String,
}

/// The base of relative addresses.
pub(super) fn base(tree: &HtmlTree, url: &Url) -> Url {
    let declared = tree.within(HtmlTree::ROOT).find(|id| tree.tag(*id) == "base");
    let declared = declared.and_then(|id| url.join(tree.attribute(id, "href")?.trim()).ok());
    declared.filter(|base| matches!(base.scheme(), "http" | "https")).unwrap_or_else(|| url.clone())
}

/// The first links, each address once.
pub(super) fn of(tree: &HtmlTree, base: &Url, max: usize) -> Vec<PageLink> {
    let mut seen = HashSet::new();
    let anchors = tree.within(HtmlTree::ROOT).filter(|id| tree.tag(*id) == "a");
    let links = anchors.filter_map(|id| {
        let href = absolute(tree.attribute(id, "href")?, base)?;
        if !seen.insert(href.clone()) {
            return None;
        }
        let mut text = collapse_whitespace(&tree.text_within(id));
        if text.is_empty() {
            let pictures = tree.within(id).filter_map(|inner| tree.attribute(inner, "alt"));
            text = collapse_whitespace(&pictures.collect::<Vec<_>>().join(" "));
        }
        Some(PageLink { text: text.chars().take(TEXT_CHARS).collect(), href })
    });
    links.take(max).collect()
}

/// The absolute address of a link with http or https.
pub(super) fn absolute(href: &str, base: &Url) -> Option<String> {
    let href = href.trim();
    if href.is_empty() || href.starts_with('#') {
        return None;
    }
    let url = base.join(href).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.into())
}
