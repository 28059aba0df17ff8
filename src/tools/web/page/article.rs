//! Finds the part of a page that is worth reading: no menus, banners and hidden text. Class names
//! alone exclude at most half of a page.

use super::tree::{HtmlNodeId, HtmlTree};
use crate::tools::text::{collapse_whitespace, has_word};

/// Words in the classes and ids of side elements.
const SIDE_WORDS: &str = "\
    ad ads advert advertisement banner breadcrumb breadcrumbs comments consent cookie cookies footer \
    menu modal nav navbar navigation newsletter noprint pagination popup promo recommended related share \
    sharing sidebar social sponsored subscribe";
/// The shortest text of a marked main part.
const MAIN_BYTES: usize = 140;
/// Shorter paragraphs are ignored in the search for the main part.
const PARAGRAPH_BYTES: usize = 25;
/// The longest title or description, characters.
const META_CHARS: usize = 1_000;
/// Tags of side elements.
const SIDE_TAGS: [&str; 6] = ["nav", "aside", "footer", "dialog", "button", "select"];
/// Roles of side elements.
const SIDE_ROLES: [&str; 8] =
    ["navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog", "menu"];

/// The main part of a page.
#[derive(Debug)]
pub(super) struct Article {
    /// Its element.
    pub(super) top: HtmlNodeId,
    omitted: Vec<bool>,
}

impl Article {
    /// Whether a node in it is left out.
    pub(super) fn omits(&self, id: HtmlNodeId) -> bool {
        self.omitted.get(id).copied().unwrap_or(false)
    }
}

pub(super) fn find(tree: &HtmlTree) -> Article {
    let hidden = mark_with_descendants(tree, |id| is_hidden(tree, id));
    let visible = TextWeights::of(tree, &hidden);
    let total = visible.text(HtmlTree::ROOT);
    let is_side_element =
        |id: HtmlNodeId| is_side_element(tree, id) && visible.text(id).saturating_mul(2) < total;
    let side = mark_with_descendants(tree, |id| is_hidden(tree, id) || is_side_element(id));
    let main = TextWeights::of(tree, &side);
    // A page that is only a menu is read completely.
    let (omitted, weights) =
        if main.text(HtmlTree::ROOT).saturating_mul(8) >= total { (side, main) } else { (hidden, visible) };
    let top = marked(tree, &weights).or_else(|| densest(tree, &weights)).unwrap_or(HtmlTree::ROOT);
    Article { top, omitted }
}

/// The text of the first element of a name.
pub(super) fn first_text(tree: &HtmlTree, tag: &str) -> Option<String> {
    let found = tree.within(HtmlTree::ROOT).find(|id| tree.tag(*id) == tag)?;
    shortened(&tree.text_within(found))
}

/// The content of the first `meta` of these names.
pub(super) fn meta(tree: &HtmlTree, names: &[&str]) -> Option<String> {
    let content_of = |id: HtmlNodeId, requested: &str| {
        let name = tree.attribute(id, "name").or_else(|| tree.attribute(id, "property"))?;
        if name.eq_ignore_ascii_case(requested) { shortened(tree.attribute(id, "content")?) } else { None }
    };
    let metas: Vec<HtmlNodeId> = tree.within(HtmlTree::ROOT).filter(|id| tree.tag(*id) == "meta").collect();
    names.iter().find_map(|name| metas.iter().find_map(|id| content_of(*id, name)))
}

fn shortened(text: &str) -> Option<String> {
    let text: String = collapse_whitespace(text).chars().take(META_CHARS).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// Marks nodes and their descendants.
fn mark_with_descendants(tree: &HtmlTree, is_marked: impl Fn(HtmlNodeId) -> bool) -> Vec<bool> {
    let mut marks: Vec<bool> = Vec::with_capacity(tree.len());
    for id in 0..tree.len() {
        let inherited = tree.parent(id).and_then(|parent| marks.get(parent).copied()).unwrap_or(false);
        marks.push(inherited || is_marked(id));
    }
    marks
}

/// Whether browsers hide the element. Hidden text often contains instructions for machines.
fn is_hidden(tree: &HtmlTree, id: HtmlNodeId) -> bool {
    let style = || {
        let style = tree.attribute(id, "style").unwrap_or_default().to_ascii_lowercase();
        let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
        ["display:none", "visibility:hidden", "font-size:0;", "opacity:0;"]
            .iter()
            .any(|rule| format!("{style};").contains(rule))
    };
    matches!(tree.tag(id), "head" | "title" | "textarea" | "input")
        || tree.attribute(id, "hidden").is_some()
        || tree.attribute(id, "aria-hidden") == Some("true")
        || style()
}

fn is_side_element(tree: &HtmlTree, id: HtmlNodeId) -> bool {
    let tag = tree.tag(id);
    if tag.is_empty() || matches!(tag, "html" | "body" | "main" | "article" | "table") {
        return false;
    }
    if SIDE_TAGS.contains(&tag) || tree.attribute(id, "role").is_some_and(|role| SIDE_ROLES.contains(&role)) {
        return true;
    }
    if tag == "header" {
        // A site's header, not an article's.
        let mut ancestors = std::iter::successors(tree.parent(id), |id| tree.parent(*id));
        return !ancestors.any(|id| matches!(tree.tag(id), "article" | "main" | "section"));
    }
    let is_box = matches!(tag, "div" | "section" | "ul" | "ol" | "p" | "form");
    is_box && ["class", "id"].iter().any(|name| tree.attribute(id, name).is_some_and(has_side_word))
}

fn has_side_word(names: &str) -> bool {
    names
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| has_word(SIDE_WORDS, &word.to_ascii_lowercase()))
}

/// The bytes of text in each node, and those in links.
struct TextWeights {
    text: Vec<usize>,
    links: Vec<usize>,
    omitted: Vec<bool>,
}

impl TextWeights {
    fn of(tree: &HtmlTree, omitted: &[bool]) -> Self {
        let mut weights =
            Self { text: vec![0; tree.len()], links: vec![0; tree.len()], omitted: omitted.to_vec() };
        // Children come after their parents.
        for id in (0..tree.len()).rev() {
            if omitted.get(id).copied().unwrap_or(false) {
                continue;
            }
            let own_bytes = tree.text(id).split_whitespace().map(str::len).sum::<usize>();
            let text = add(&mut weights.text, id, own_bytes);
            let within = if tree.tag(id) == "a" { text } else { 0 };
            let links = add(&mut weights.links, id, within).min(text);
            if let Some(parent) = tree.parent(id) {
                add(&mut weights.text, parent, text);
                add(&mut weights.links, parent, links);
            }
        }
        weights
    }

    fn text(&self, id: HtmlNodeId) -> usize {
        self.text.get(id).copied().unwrap_or(0)
    }

    /// Text outside of links.
    fn prose(&self, id: HtmlNodeId) -> usize {
        self.text(id).saturating_sub(self.links.get(id).copied().unwrap_or(0))
    }

    fn counts(&self, id: HtmlNodeId) -> bool {
        !self.omitted.get(id).copied().unwrap_or(true)
    }
}

fn add(list: &mut [usize], id: HtmlNodeId, more: usize) -> usize {
    list.get_mut(id).map_or(0, |slot| {
        *slot = slot.saturating_add(more);
        *slot
    })
}

/// The part that the page marks as its main part.
fn marked(tree: &HtmlTree, weights: &TextWeights) -> Option<HtmlNodeId> {
    let total = weights.prose(HtmlTree::ROOT);
    let largest = |is_candidate: &dyn Fn(HtmlNodeId) -> bool| {
        let candidates = (0..tree.len()).filter(|id| is_candidate(*id) && weights.counts(*id));
        candidates.max_by_key(|id| weights.prose(*id))
    };
    let article =
        largest(&|id| tree.tag(id) == "article" || tree.attribute(id, "itemprop") == Some("articleBody"));
    let main = largest(&|id| tree.tag(id) == "main" || tree.attribute(id, "role") == Some("main"));
    let has_share = |id: &HtmlNodeId, parts: usize| {
        weights.text(*id) >= MAIN_BYTES && weights.prose(*id).saturating_mul(parts) >= total
    };
    article.filter(|id| has_share(id, 2)).or_else(|| main.filter(|id| has_share(id, 4)))
}

/// The element with the highest paragraph score, or its nearest ancestor with half of the text.
fn densest(tree: &HtmlTree, weights: &TextWeights) -> Option<HtmlNodeId> {
    let mut scores = vec![0_usize; tree.len()];
    for id in 0..tree.len() {
        let is_paragraph = matches!(tree.tag(id), "p" | "pre" | "blockquote" | "li" | "dd");
        let prose = weights.prose(id);
        if !is_paragraph || prose < PARAGRAPH_BYTES || !weights.counts(id) {
            continue;
        }
        let points = 100 + prose.min(600);
        let parent = tree.parent(id).unwrap_or(HtmlTree::ROOT);
        add(&mut scores, parent, points);
        add(&mut scores, tree.parent(parent).unwrap_or(HtmlTree::ROOT), points / 2);
    }
    let (mut top, best) = scores.iter().copied().enumerate().max_by_key(|(_, score)| *score)?;
    if best == 0 {
        return None;
    }
    let total = weights.prose(HtmlTree::ROOT);
    while weights.prose(top).saturating_mul(2) < total {
        top = tree.parent(top)?;
    }
    Some(top)
}
