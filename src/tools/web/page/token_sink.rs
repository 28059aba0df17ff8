//! Passes the tags and texts of [`html5gum`] to the tree while they are read. Errors, comments and document
//! types are dropped, and long names and values are cut, so that a page cannot make the tokenizer collect
//! more than its own text.

use super::tree::{ATTRIBUTE_BYTES, ATTRIBUTES, HtmlTree, HtmlTreeBuilder, ReadTag};
use html5gum::{Emitter, Error, State, Tokenizer, naive_next_state};

/// Text is passed on in pieces of this size, bytes.
const TEXT_BYTES: usize = 4_096;
/// A longer name of an element or attribute is cut: none that matters is so long.
const NAME_BYTES: usize = 64;

impl HtmlTree {
    /// Parses a page. Every text is a page.
    pub(in crate::tools) fn parse(html: &str) -> Self {
        let mut builder = HtmlTreeBuilder::new();
        // The only token says that the tree is full.
        Tokenizer::new_with_emitter(html, TokenSink::new(&mut builder)).next();
        builder.into_tree()
    }
}

/// The tree has no room for more.
#[derive(Debug)]
struct TreeFull;

/// The emitter of the tokenizer.
struct TokenSink<'a> {
    builder: &'a mut HtmlTreeBuilder,
    text: Vec<u8>,
    tag: ReadTag,
    is_end_tag: bool,
    /// Decides which end tag ends a text without tags, such as a script.
    last_start: Vec<u8>,
    attribute_name: Vec<u8>,
    attribute_value: Vec<u8>,
}

impl<'a> TokenSink<'a> {
    fn new(builder: &'a mut HtmlTreeBuilder) -> Self {
        Self {
            builder,
            text: Vec::new(),
            tag: ReadTag::default(),
            is_end_tag: false,
            last_start: Vec::new(),
            attribute_name: Vec::new(),
            attribute_value: Vec::new(),
        }
    }

    fn flush_text(&mut self) {
        self.builder.text(&readable(&self.text));
        self.text.clear();
    }

    /// Stores the current attribute, if the tree reads it. The first one of a name counts.
    fn finish_attribute(&mut self) {
        let known = ATTRIBUTES.split(' ').find(|key| key.as_bytes() == self.attribute_name);
        let is_new = |key: &&str| self.tag.attributes.iter().all(|(other, _)| other != key);
        if let Some(key) = known.filter(is_new).filter(|_| self.attribute_value.len() <= ATTRIBUTE_BYTES) {
            self.tag.attributes.push((key, readable(&self.attribute_value).into()));
        }
        self.attribute_name.clear();
        self.attribute_value.clear();
    }

    fn init_tag(&mut self, is_end_tag: bool) {
        self.tag = ReadTag::default();
        self.is_end_tag = is_end_tag;
        self.attribute_name.clear();
        self.attribute_value.clear();
    }
}

/// Text without control characters: models cannot use them, and each is six bytes in JSON.
pub(super) fn readable(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.retain(|c| !c.is_control() || c.is_whitespace());
    text
}

/// Appends to a buffer of at most `max_bytes`.
fn push(buffer: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) {
    let free = max_bytes.saturating_sub(buffer.len());
    buffer.extend_from_slice(bytes.get(..free).unwrap_or(bytes));
}

impl Emitter for TokenSink<'_> {
    type Token = TreeFull;

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start = name.unwrap_or_default().to_vec();
    }

    fn emit_eof(&mut self) {
        self.flush_text();
    }

    fn emit_error(&mut self, _: Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<TreeFull> {
        self.builder.is_cut().then_some(TreeFull)
    }

    fn emit_string(&mut self, text: &[u8]) {
        // A long text comes in one piece, a reference to a character byte by byte.
        for piece in text.chunks(TEXT_BYTES) {
            self.text.extend_from_slice(piece);
            if self.text.len() >= TEXT_BYTES {
                self.flush_complete_text();
            }
        }
    }

    fn init_start_tag(&mut self) {
        self.init_tag(false);
    }

    fn init_end_tag(&mut self) {
        self.init_tag(true);
    }

    fn init_comment(&mut self) {}

    fn emit_current_tag(&mut self) -> Option<State> {
        self.flush_text();
        self.finish_attribute();
        let tag = std::mem::take(&mut self.tag);
        self.last_start.clear();
        if self.is_end_tag {
            self.builder.end(&String::from_utf8_lossy(&tag.name));
        } else {
            self.last_start.clone_from(&tag.name);
            self.builder.start(tag);
        }
        naive_next_state(&self.last_start)
    }

    fn emit_current_comment(&mut self) {}

    fn emit_current_doctype(&mut self) {}

    fn set_self_closing(&mut self) {
        self.tag.is_self_closing = true;
    }

    fn set_force_quirks(&mut self) {}

    fn push_tag_name(&mut self, name: &[u8]) {
        push(&mut self.tag.name, name, NAME_BYTES);
    }

    fn push_comment(&mut self, _: &[u8]) {}

    fn push_doctype_name(&mut self, _: &[u8]) {}

    fn init_doctype(&mut self) {}

    fn init_attribute(&mut self) {
        self.finish_attribute();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        push(&mut self.attribute_name, name, NAME_BYTES);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        // One byte more than the tree stores, so that a value that was cut is left out.
        push(&mut self.attribute_value, value, ATTRIBUTE_BYTES + 1);
    }

    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}

    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end_tag && !self.last_start.is_empty() && self.last_start == self.tag.name
    }
}

impl TokenSink<'_> {
    /// Passes on the text up to a character that is not complete yet.
    fn flush_complete_text(&mut self) {
        let incomplete = match std::str::from_utf8(&self.text) {
            Err(error) if error.error_len().is_none() => self.text.split_off(error.valid_up_to()),
            _ => Vec::new(),
        };
        self.flush_text();
        self.text = incomplete;
    }
}
