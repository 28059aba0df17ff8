//! Finds the reasoning that local models write into their text: `<think>…</think>` at its start. Some chat
//! templates give the opening tag to the model, so that only `</think>` arrives.
//!
//! It works character by character, so the size of the pieces does not matter. A tag further on is text.

#[cfg(test)]
mod tests;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
const FENCE_TICKS: u32 = 3;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaggedPiece {
    /// Reasoning.
    Thinking(String),
    /// Text of the answer.
    Text(String),
    /// All text so far was reasoning: its closing tag came, and there was no opening one.
    TextWasThinking,
}

/// What the next character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagState {
    /// Blanks before the text or before an opening tag.
    Start,
    /// Reasoning.
    Thinking,
    /// Text in which a closing tag would end reasoning without an opening tag.
    MaybeThinking,
    /// Text behind a closing tag that may be a mention; the next character decides.
    AfterClose,
    /// Text.
    Text,
}

/// Where in the Markdown of the text the next character stands.
#[derive(Debug, Default)]
struct CodePlace {
    in_fence: bool,
    /// Backticks at the start of this line, and in all of it.
    leading_ticks: u32,
    line_ticks: u32,
    /// The line has another character than blanks and leading backticks.
    has_words: bool,
    previous: Option<char>,
}

impl CodePlace {
    fn advance(&mut self, c: char) {
        match c {
            '\n' => {
                self.in_fence ^= self.leading_ticks >= FENCE_TICKS;
                (self.leading_ticks, self.line_ticks, self.has_words) = (0, 0, false);
            }
            '`' => {
                self.line_ticks = self.line_ticks.saturating_add(1);
                if !self.has_words {
                    self.leading_ticks = self.leading_ticks.saturating_add(1);
                }
            }
            c if c.is_whitespace() => {}
            _ => self.has_words = true,
        }
        self.previous = Some(c);
    }

    /// Whether a tag here is code or quoted.
    fn is_mention(&self) -> bool {
        let is_code = self.in_fence || self.leading_ticks >= FENCE_TICKS || self.line_ticks % 2 == 1;
        is_code || self.previous.is_some_and(|c| "\"'`“‘«".contains(c))
    }
}

/// Separates reasoning from text as the text arrives.
#[derive(Debug)]
pub(super) struct ThinkTags {
    state: TagState,
    /// A possible tag.
    held: String,
    /// Blanks that are dropped if a tag follows them.
    blanks: String,
    /// A block of reasoning has begun.
    has_thought: bool,
    /// The current block has more than blanks.
    has_words: bool,
    /// Whether a closing tag alone can end reasoning.
    may_lack_opening: bool,
    place: CodePlace,
    pieces: Vec<TaggedPiece>,
}

impl Default for ThinkTags {
    fn default() -> Self {
        Self {
            state: TagState::Start,
            held: String::new(),
            blanks: String::new(),
            has_thought: false,
            has_words: false,
            may_lack_opening: true,
            place: CodePlace::default(),
            pieces: Vec::new(),
        }
    }
}

impl ThinkTags {
    /// Notes that the provider sends reasoning in a field of its own: then a closing tag in the text is text.
    pub(super) fn note_reasoning(&mut self) {
        self.may_lack_opening = false;
        if self.state == TagState::MaybeThinking && self.held.is_empty() {
            self.state = TagState::Text;
        }
    }

    /// Adds text; returns what is certain by now.
    pub(super) fn push(&mut self, text: &str) -> Vec<TaggedPiece> {
        if self.state == TagState::Text {
            self.emit_text(text);
        } else {
            text.chars().for_each(|c| self.scan(c));
        }
        std::mem::take(&mut self.pieces)
    }

    /// Ends the text; returns what was held back.
    pub(super) fn finish(&mut self) -> Vec<TaggedPiece> {
        match self.state {
            TagState::AfterClose => self.end_bare_thinking(),
            TagState::Thinking => self.release_thinking(),
            TagState::Start if self.has_thought => {
                let held = std::mem::take(&mut self.held);
                self.emit_text(&held);
            }
            _ => {
                let text = std::mem::take(&mut self.blanks) + &std::mem::take(&mut self.held);
                self.emit_text(&text);
            }
        }
        std::mem::take(&mut self.pieces)
    }

    fn scan(&mut self, c: char) {
        match self.state {
            TagState::Start => self.scan_start(c),
            TagState::Thinking => self.scan_thinking(c),
            TagState::MaybeThinking => self.scan_maybe(c),
            TagState::AfterClose => self.scan_after_close(c),
            TagState::Text => self.emit_text(c.encode_utf8(&mut [0; 4])),
        }
    }

    fn scan_start(&mut self, c: char) {
        if self.held.is_empty() && c.is_whitespace() {
            return self.blanks.push(c);
        }
        self.held.push(c);
        if self.held == OPEN {
            self.held.clear();
            self.blanks.clear();
            (self.state, self.has_thought, self.has_words) = (TagState::Thinking, true, false);
        } else if !OPEN.starts_with(&self.held) {
            self.begin_text();
        }
    }

    /// The text has begun; no opening tag stands before it.
    fn begin_text(&mut self) {
        let (blanks, held) = (std::mem::take(&mut self.blanks), std::mem::take(&mut self.held));
        let is_maybe = self.may_lack_opening && !self.has_thought;
        self.state = if is_maybe { TagState::MaybeThinking } else { TagState::Text };
        if !self.has_thought {
            self.emit_text(&blanks);
        }
        held.chars().for_each(|c| self.scan(c));
    }

    fn scan_thinking(&mut self, c: char) {
        self.held.push(c);
        if self.held == CLOSE {
            self.held.clear();
            self.blanks.clear();
            self.state = TagState::Start;
        } else if !CLOSE.starts_with(&self.held) {
            self.held.pop();
            self.release_thinking();
            match c {
                '<' => self.held.push(c),
                c if c.is_whitespace() => self.blanks.push(c),
                _ => self.emit_thinking(c),
            }
        }
    }

    /// Emits what looked like the beginning of a closing tag.
    fn release_thinking(&mut self) {
        for c in std::mem::take(&mut self.held).chars() {
            self.emit_thinking(c);
        }
    }

    fn scan_maybe(&mut self, c: char) {
        self.held.push(c);
        match self.held.as_str() {
            CLOSE if !self.may_lack_opening || self.place.is_mention() => self.release_text(),
            CLOSE if matches!(self.place.previous, Some(' ' | '\t')) => self.state = TagState::AfterClose,
            CLOSE => self.end_bare_thinking(),
            // A block in the middle of the text is text.
            OPEN => {
                self.release_text();
                self.state = TagState::Text;
            }
            held if OPEN.starts_with(held) || CLOSE.starts_with(held) => {}
            _ => {
                self.held.pop();
                self.release_text();
                if c == '<' {
                    self.held.push(c);
                } else {
                    self.emit_text(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// Between two blanks, the tag is a word of a sentence.
    fn scan_after_close(&mut self, c: char) {
        if matches!(c, ' ' | '\t' | ',' | '.' | ')') {
            self.state = TagState::MaybeThinking;
            self.release_text();
        } else {
            self.end_bare_thinking();
        }
        self.scan(c);
    }

    fn end_bare_thinking(&mut self) {
        self.held.clear();
        (self.state, self.has_thought) = (TagState::Start, true);
        self.pieces.push(TaggedPiece::TextWasThinking);
    }

    fn release_text(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.emit_text(&held);
    }

    /// Blanks at the start and at the end of the reasoning are dropped.
    fn emit_thinking(&mut self, c: char) {
        let mut text = std::mem::take(&mut self.blanks);
        if !std::mem::replace(&mut self.has_words, true) {
            text.clear();
        }
        text.push(c);
        match self.pieces.last_mut() {
            Some(TaggedPiece::Thinking(thinking)) => thinking.push_str(&text),
            _ => self.pieces.push(TaggedPiece::Thinking(text)),
        }
    }

    fn emit_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.state == TagState::MaybeThinking {
            text.chars().for_each(|c| self.place.advance(c));
        }
        match self.pieces.last_mut() {
            Some(TaggedPiece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(TaggedPiece::Text(text.to_owned())),
        }
    }
}
