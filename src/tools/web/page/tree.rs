//! The tree of a page's elements, built in one pass over the tags. Its size and depth are limited.
//!
//! The tags are read as the HTML standard says. The tree differs from the standard's: its repair of
//! bad nesting takes time that grows with the square of the page.

use crate::tools::text::has_word;
use std::collections::HashMap;

/// Elements without an end tag.
const VOID: &str = "area base br col embed hr img input link meta param source track wbr";
/// Elements without text for readers.
const UNREAD: &str = "\
    script style noscript template svg math iframe object canvas noembed noframes video audio";
/// Elements that end an open paragraph.
const BLOCKS: &str = "\
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer \
    form h1 h2 h3 h4 h5 h6 header hr main menu nav ol p pre section summary table ul";
/// Elements and texts of a page; later ones are left out.
const NODES: usize = 150_000;
/// The depth of the tree; deeper elements become siblings.
const DEPTH: usize = 200;
/// Memory of the tree; later elements and texts are left out.
const TREE_BYTES: usize = 20 << 20;
/// Memory of a node, and of an attribute in addition to its value, with what the allocator adds.
const NODE_BYTES: usize = size_of::<HtmlNode>() + 32;
const ATTRIBUTE_COST_BYTES: usize = size_of::<(&str, Box<str>)>() + 24;
/// Longer attributes are left out.
pub(super) const ATTRIBUTE_BYTES: usize = 8_192;
/// The attributes that the tree stores.
pub(super) const ATTRIBUTES: &str = "href src alt id class role hidden aria-hidden \
     style name property content itemprop start title";

/// The index of a node.
pub(in crate::tools) type HtmlNodeId = usize;

/// The elements and texts of a page, in the order of the page.
#[derive(Debug)]
pub(in crate::tools) struct HtmlTree {
    nodes: Vec<HtmlNode>,
    bytes: usize,
    is_cut: bool,
}

#[derive(Debug, Default)]
struct HtmlNode {
    parent: Option<HtmlNodeId>,
    first: Option<HtmlNodeId>,
    last: Option<HtmlNodeId>,
    next: Option<HtmlNodeId>,
    /// Empty for a text and for the root.
    tag: Box<str>,
    /// Of a text.
    text: String,
    attributes: Vec<(&'static str, Box<str>)>,
}

impl HtmlTree {
    /// The root, which is no element.
    pub(in crate::tools) const ROOT: HtmlNodeId = 0;

    /// Whether the page has more nodes than the tree.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// An element's name; empty for a text.
    pub(in crate::tools) fn tag(&self, id: HtmlNodeId) -> &str {
        self.nodes.get(id).map_or("", |node| &node.tag)
    }

    /// A text; empty for an element.
    pub(super) fn text(&self, id: HtmlNodeId) -> &str {
        self.nodes.get(id).map_or("", |node| &node.text)
    }

    /// An element's attribute.
    pub(in crate::tools) fn attribute(&self, id: HtmlNodeId, name: &str) -> Option<&str> {
        let attributes = &self.nodes.get(id)?.attributes;
        attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value)
    }

    /// Whether the element is of a class.
    pub(in crate::tools) fn has_class(&self, id: HtmlNodeId, class: &str) -> bool {
        self.attribute(id, "class")
            .is_some_and(|classes| classes.split_whitespace().any(|name| name == class))
    }

    pub(super) fn parent(&self, id: HtmlNodeId) -> Option<HtmlNodeId> {
        self.nodes.get(id)?.parent
    }

    pub(super) fn children(&self, id: HtmlNodeId) -> impl Iterator<Item = HtmlNodeId> + '_ {
        let first = self.nodes.get(id).and_then(|node| node.first);
        std::iter::successors(first, |id| self.nodes.get(*id)?.next)
    }

    /// The node and its descendants, in the order of the page.
    pub(in crate::tools) fn within(&self, top: HtmlNodeId) -> impl Iterator<Item = HtmlNodeId> + '_ {
        std::iter::successors(Some(top), move |id| self.following(*id, top))
    }

    fn following(&self, id: HtmlNodeId, top: HtmlNodeId) -> Option<HtmlNodeId> {
        let node = self.nodes.get(id)?;
        if node.first.is_some() {
            return node.first;
        }
        let mut id = id;
        while id != top {
            let node = self.nodes.get(id)?;
            if node.next.is_some() {
                return node.next;
            }
            id = node.parent?;
        }
        None
    }

    /// The text of the node and its descendants.
    pub(in crate::tools) fn text_within(&self, id: HtmlNodeId) -> String {
        self.within(id).map(|inner| if self.tag(inner) == "br" { "\n" } else { self.text(inner) }).collect()
    }

    fn add(&mut self, parent: HtmlNodeId, node: HtmlNode) -> HtmlNodeId {
        let id = self.nodes.len();
        let attribute_bytes = |(_, value): &(_, Box<str>)| value.len() + ATTRIBUTE_COST_BYTES;
        self.bytes +=
            NODE_BYTES + node.text.len() + node.attributes.iter().map(attribute_bytes).sum::<usize>();
        self.nodes.push(HtmlNode { parent: Some(parent), ..node });
        let previous = self.nodes.get_mut(parent).and_then(|parent| {
            parent.first.get_or_insert(id);
            parent.last.replace(id)
        });
        if let Some(previous) = previous.and_then(|previous| self.nodes.get_mut(previous)) {
            previous.next = Some(id);
        }
        self.is_cut = self.nodes.len() >= NODES || self.bytes >= TREE_BYTES;
        id
    }
}

/// A tag as the tokenizer read it.
#[derive(Debug, Default)]
pub(super) struct ReadTag {
    /// In lower case.
    pub(super) name: Vec<u8>,
    /// Of [`ATTRIBUTES`], each once.
    pub(super) attributes: Vec<(&'static str, Box<str>)>,
    pub(super) is_self_closing: bool,
}

pub(super) struct HtmlTreeBuilder {
    tree: HtmlTree,
    /// Open elements, the outermost first.
    open: Vec<HtmlNodeId>,
    /// Open elements by name.
    names: HashMap<Box<str>, usize>,
    /// Open elements below the depth limit.
    too_deep: usize,
    /// The open element without readable text: its name, and how many of that name are open.
    unread: Option<(String, usize)>,
}

impl HtmlTreeBuilder {
    pub(super) fn new() -> Self {
        let tree = HtmlTree { nodes: vec![HtmlNode::default()], bytes: 0, is_cut: false };
        Self { tree, open: Vec::new(), names: HashMap::new(), too_deep: 0, unread: None }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.tree.is_cut
    }

    pub(super) fn into_tree(self) -> HtmlTree {
        self.tree
    }

    pub(super) fn start(&mut self, tag: ReadTag) {
        let name = String::from_utf8_lossy(&tag.name);
        if let Some((unread, count)) = &mut self.unread {
            *count += usize::from(*unread == name && !tag.is_self_closing);
            return;
        }
        if has_word(UNREAD, &name) {
            self.unread = (!tag.is_self_closing).then(|| (name.into_owned(), 1));
            return;
        }
        if matches!(&*name, "html" | "body") && self.names.contains_key(&*name) {
            return;
        }
        self.end_implied(&name);
        let parent = self.open.last().copied().unwrap_or(HtmlTree::ROOT);
        let id = self.tree.add(
            parent,
            HtmlNode { tag: (&*name).into(), attributes: tag.attributes, ..HtmlNode::default() },
        );
        if has_word(VOID, &name) {
            return;
        }
        if self.open.len() >= DEPTH {
            self.too_deep += 1;
            return;
        }
        self.open.push(id);
        *self.names.entry((&*name).into()).or_default() += 1;
    }

    pub(super) fn end(&mut self, name: &str) {
        if let Some((unread, count)) = &mut self.unread {
            *count -= usize::from(unread == name);
            if *count == 0 {
                self.unread = None;
            }
            return;
        }
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        if name == "br" {
            let parent = self.open.last().copied().unwrap_or(HtmlTree::ROOT);
            self.tree.add(parent, HtmlNode { tag: "br".into(), ..HtmlNode::default() });
            return;
        }
        let is_table = matches!(name, "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "caption");
        let barriers: &[&str] = if is_table { &["table"] } else { &["table", "td", "th", "caption"] };
        if !matches!(name, "html" | "body") {
            self.end_within(&[name], barriers);
        }
    }

    /// Ends the elements that a start tag ends implicitly.
    fn end_implied(&mut self, name: &str) {
        if has_word(BLOCKS, name) || matches!(name, "li" | "dt" | "dd" | "tr" | "td" | "th") {
            self.end_within(&["p"], &["table", "td", "th", "caption", "button", "li", "dd", "dt"]);
        }
        match name {
            "li" => self.end_within(&["li"], &["ul", "ol", "menu", "table", "td", "th"]),
            "dt" | "dd" => self.end_within(&["dt", "dd"], &["dl", "table", "td", "th"]),
            "tr" => self.end_within(&["tr"], &["table"]),
            "td" | "th" => self.end_within(&["td", "th"], &["tr", "table"]),
            "thead" | "tbody" | "tfoot" => self.end_within(&["thead", "tbody", "tfoot"], &["table"]),
            "option" => self.end_within(&["option"], &["select"]),
            "a" => self.end_within(&["a"], &["table", "td", "th"]),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.end_within(
                    &["h1", "h2", "h3", "h4", "h5", "h6"],
                    &["table", "td", "th", "section", "div"],
                );
            }
            _ => {}
        }
        if !matches!(name, "title" | "meta" | "link" | "base" | "head" | "html") {
            // Any other element ends the head.
            self.end_within(&["head"], &[]);
        }
    }

    /// Ends the innermost open element with one of the names, unless an element of `barriers` is inside it.
    fn end_within(&mut self, names: &[&str], barriers: &[&str]) {
        if !names.iter().any(|name| self.names.get(*name).is_some_and(|count| *count > 0)) {
            return;
        }
        for at in (0..self.open.len()).rev() {
            let tag = self.open.get(at).map_or("", |id| self.tree.tag(*id));
            if names.contains(&tag) {
                self.end_from(at);
                return;
            }
            if barriers.contains(&tag) {
                return;
            }
        }
    }

    /// Ends the open elements from index `at` on.
    fn end_from(&mut self, at: usize) {
        for id in self.open.split_off(at) {
            if let Some(count) = self.names.get_mut(self.tree.tag(id)) {
                *count = count.saturating_sub(1);
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.unread.is_some() || text.is_empty() {
            return;
        }
        let parent = self.open.last().copied().unwrap_or(HtmlTree::ROOT);
        let last = self.tree.nodes.get(parent).and_then(|node| node.last);
        match last.and_then(|last| self.tree.nodes.get_mut(last)).filter(|node| node.tag.is_empty()) {
            Some(before) => {
                before.text.push_str(text);
                self.tree.bytes += text.len();
                self.tree.is_cut |= self.tree.bytes >= TREE_BYTES;
            }
            None => {
                self.tree.add(parent, HtmlNode { text: text.to_owned(), ..HtmlNode::default() });
            }
        }
    }
}
