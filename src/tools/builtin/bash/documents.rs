//! How the parser reads here-documents: their bodies begin after the line that names them. Owns where they end.

use super::parser::Parser;
use super::script::Document;
use super::word::Word;

/// A document whose body has not begun.
pub(super) struct Pending {
    /// Its place among the documents.
    number: usize,
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
}

impl Parser {
    /// Notes a document that ends with this word; its place among the documents.
    pub(super) fn announce(&mut self, end: &Word, strips_tabs: bool) -> usize {
        let number = self.documents.len();
        self.documents.push(Document::default());
        self.pending.push(Pending { number, end: end.text(), is_quoted: end.is_quoted(), strips_tabs });
        number
    }

    /// Reads the bodies that begin here, at the start of a line.
    pub(super) fn bodies(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            while let Some(line) = self.cursor.line() {
                let line = if pending.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == pending.end {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            let sources = if pending.is_quoted { Vec::new() } else { self.expansions(&body) };
            if let Some(document) = self.documents.get_mut(pending.number) {
                *document = Document { body, sources };
            }
        }
    }

    /// The insides of the substitutions in a body, where quotes mean nothing.
    fn expansions(&mut self, body: &str) -> Vec<String> {
        if !self.enter() {
            return Vec::new();
        }
        let mut inner = self.within(body);
        let mut ignored = Word::default();
        while let Some(c) = inner.cursor.bump() {
            match c {
                '\\' => drop(inner.cursor.bump()),
                '$' => inner.dollar(true, &mut ignored),
                '`' => drop(inner.backquoted()),
                _ => {}
            }
        }
        self.is_too_deep |= inner.is_too_deep;
        self.leave();
        inner.sources
    }
}
