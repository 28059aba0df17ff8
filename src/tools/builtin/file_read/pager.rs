//! Collects the lines of one page of a streamed text. It stores no more than that page.

use crate::tools::text::json_chars;

/// Characters of a line that are shown.
pub(super) const LINE_CHARS: usize = 2_000;

/// A page under construction.
#[derive(Default)]
pub(super) struct LinePager {
    first: u64,
    max_lines: u64,
    max_json_chars: usize,
    /// The line that is being read, from 1.
    line: u64,
    current: String,
    current_chars: usize,
    ends_in_cr: bool,
    used_chars: usize,
    is_full: bool,
    crlf_lines: u64,
    lf_lines: u64,
    /// The text of the page.
    pub(super) text: String,
    /// The number of lines on it.
    pub(super) shown: u64,
    /// The numbers of the cut lines.
    pub(super) cut: Vec<u64>,
}

impl LinePager {
    /// At most `max_lines` lines from `first` on, as many as fit into `room_chars` characters of JSON, but at
    /// least one.
    pub(super) fn new(first: u64, max_lines: u64, max_json_chars: usize) -> Self {
        Self { first, max_lines, max_json_chars, line: 1, ..Self::default() }
    }

    /// Whether the page is full, so that further lines are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the text has reached the page.
    pub(super) fn has_started(&self) -> bool {
        self.line >= self.first
    }

    /// Adds the next piece of the text.
    pub(super) fn push(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            let body = part.strip_suffix('\n').unwrap_or(part);
            self.extend(body);
            if body.len() < part.len() {
                self.end_line();
            }
        }
    }

    /// Ends the text and returns its number of lines.
    pub(super) fn finish(&mut self) -> u64 {
        if self.current_chars > 0 {
            if self.is_on_page() {
                self.show("");
            }
            self.line += 1;
        }
        self.line - 1
    }

    /// How lines end: `lf`, `crlf` or `mixed`; `None` without line ends.
    pub(super) fn line_endings(&self) -> Option<&'static str> {
        match (self.lf_lines, self.crlf_lines) {
            (0, 0) => None,
            (_, 0) => Some("lf"),
            (0, _) => Some("crlf"),
            _ => Some("mixed"),
        }
    }

    fn is_on_page(&self) -> bool {
        !self.is_full && self.has_started()
    }

    fn extend(&mut self, body: &str) {
        if body.is_empty() {
            return;
        }
        if self.is_on_page() {
            let free_chars = LINE_CHARS.saturating_sub(self.current_chars);
            self.current.extend(body.chars().take(free_chars));
        }
        self.current_chars = self.current_chars.saturating_add(body.chars().count());
        self.ends_in_cr = body.ends_with('\r');
    }

    fn end_line(&mut self) {
        if self.ends_in_cr {
            self.crlf_lines += 1;
            self.current_chars -= 1;
            if self.current_chars < LINE_CHARS {
                self.current.pop();
            }
        } else {
            self.lf_lines += 1;
        }
        if self.is_on_page() {
            self.show("\n");
        }
        self.line += 1;
        self.current.clear();
        self.current_chars = 0;
        self.ends_in_cr = false;
    }

    fn show(&mut self, end: &str) {
        let note = (self.current_chars > LINE_CHARS)
            .then(|| format!(" … [line cut: {LINE_CHARS} of {} characters are shown]", self.current_chars));
        let line = [self.current.as_str(), note.as_deref().unwrap_or_default(), end].concat();
        let chars: usize = line.chars().map(json_chars).sum();
        self.is_full = self.shown > 0 && self.used_chars.saturating_add(chars) > self.max_json_chars;
        if self.is_full {
            return;
        }
        self.used_chars = self.used_chars.saturating_add(chars);
        self.text.push_str(&line);
        if note.is_some() {
            self.cut.push(self.line);
        }
        self.shown += 1;
        self.is_full = self.shown >= self.max_lines;
    }
}
