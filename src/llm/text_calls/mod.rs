//! Finds tool calls that local models write as text: `<tool_call>`, `<function=…>`, `<|python_tag|>`, `[TOOL_CALLS]`,
//! fenced and bare JSON. Text that may become a call is held back. A call must name a tool on offer; all else stays text.
//!
//! It works character by character, so the size of pieces does not matter. It reads a character at most twice, so no text
//! makes it slow.

mod block;
mod form;
#[cfg(test)]
mod tests;

use block::{BlockOutcome, CallBlock, OpeningTag};
pub(super) use form::TextCall;

/// Tags; none has its own first character further in, but the fence.
const OPENERS: [(&str, OpeningTag); 5] = [
    ("<tool_call>", OpeningTag::ToolCall),
    ("<function=", OpeningTag::Function),
    ("<|python_tag|>", OpeningTag::Python),
    ("[TOOL_CALLS]", OpeningTag::Mistral),
    ("```", OpeningTag::Fence),
];

/// The state at the end of the text so far.
#[derive(Debug)]
enum ParserState {
    /// Only blanks are held.
    Plain,
    /// The held text may become a tag.
    Tag(String),
    /// The held text may become a call.
    Block(CallBlock),
}

/// Quotation marks and code blocks: a quoted call is an example.
#[derive(Debug, Default)]
struct QuoteState {
    /// The last character was a quotation mark.
    is_open: bool,
    /// Inside a fenced block that stands among other words.
    in_fence: bool,
}

/// Separates calls from text as the text arrives.
#[derive(Debug)]
pub(super) struct TextCalls {
    names: Vec<String>,
    state: ParserState,
    /// Blanks at the start of the text or behind a call: they go where what follows them goes.
    blanks: String,
    /// Whether there is nothing but blanks since the start or the last call.
    fresh: bool,
    /// Whether there are nothing but blanks since the last line break.
    at_line_start: bool,
    has_called: bool,
    quotes: QuoteState,
    text: String,
    calls: Vec<TextCall>,
}

impl TextCalls {
    /// At the start of a text, with these tools on offer.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            state: ParserState::Plain,
            blanks: String::new(),
            fresh: true,
            at_line_start: true,
            has_called: false,
            quotes: QuoteState::default(),
            text: String::new(),
            calls: Vec::new(),
        }
    }

    /// Adds a piece; returns the text that is certainly no call.
    pub(super) fn push(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            self.eat(c);
        }
        std::mem::take(&mut self.text)
    }

    /// The calls found since the last time.
    pub(super) fn take(&mut self) -> Vec<TextCall> {
        std::mem::take(&mut self.calls)
    }

    /// Ends the text; returns the held text that is no call.
    pub(super) fn finish(&mut self) -> String {
        match std::mem::replace(&mut self.state, ParserState::Plain) {
            ParserState::Plain => {}
            ParserState::Tag(held) => self.let_go(&held),
            ParserState::Block(block) => {
                let outcome = block.end(&self.names);
                self.settle(outcome);
            }
        }
        // Blanks after the last call are dropped; a text of only blanks is kept.
        if !self.has_called {
            self.text.push_str(&std::mem::take(&mut self.blanks));
        }
        std::mem::take(&mut self.text)
    }

    fn eat(&mut self, c: char) {
        match std::mem::replace(&mut self.state, ParserState::Plain) {
            ParserState::Plain => self.begin(c),
            ParserState::Tag(held) => self.eat_in_tag(held, c),
            ParserState::Block(block) => {
                let outcome = block.eat(c, &self.names);
                self.settle(outcome);
            }
        }
    }

    fn settle(&mut self, outcome: BlockOutcome) {
        let next = match outcome {
            BlockOutcome::Open(block) => {
                self.state = ParserState::Block(block);
                None
            }
            BlockOutcome::Text(held, next) => {
                self.let_go(&held);
                next
            }
            BlockOutcome::Calls(calls, next) => {
                self.found(calls);
                next
            }
        };
        if let Some(c) = next {
            self.begin(c);
        }
    }

    fn begin(&mut self, c: char) {
        if self.fresh && c.is_whitespace() {
            self.blanks.push(c);
            self.at_line_start |= c == '\n';
            return;
        }
        let may_open = match c {
            '<' | '[' => !self.quotes.is_open && !self.quotes.in_fence,
            '`' => self.at_line_start,
            '{' if self.at_line_start && !self.quotes.in_fence => {
                self.state = ParserState::Block(CallBlock::bare(c));
                return;
            }
            _ => false,
        };
        if may_open {
            self.state = ParserState::Tag(c.to_string());
        } else {
            self.let_go(c.encode_utf8(&mut [0; 4]));
        }
    }

    fn eat_in_tag(&mut self, mut held: String, c: char) {
        if held == "[" && self.at_line_start && !self.quotes.in_fence && (c == '{' || c.is_whitespace()) {
            let outcome = CallBlock::bare('[').eat(c, &self.names);
            self.settle(outcome);
            return;
        }
        held.push(c);
        let opener = OPENERS.iter().find(|(tag, _)| *tag == held).map(|(_, opener)| *opener);
        if opener == Some(OpeningTag::Fence) && (self.quotes.in_fence || !self.fresh) {
            self.quotes.in_fence = !self.quotes.in_fence;
            self.let_go(&held);
        } else if let Some(opener) = opener {
            self.state = ParserState::Block(CallBlock::after(opener, held));
        } else if OPENERS.iter().any(|(tag, _)| tag.starts_with(&held)) {
            self.state = ParserState::Tag(held);
        } else {
            held.pop();
            self.let_go(&held);
            self.begin(c);
        }
    }

    fn let_go(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(&std::mem::take(&mut self.blanks));
        self.text.push_str(text);
        self.fresh = false;
        self.quotes.is_open = text.ends_with(['`', '"', '\'']);
        let line = text.rsplit('\n').next().unwrap_or_default();
        self.at_line_start =
            line.chars().all(char::is_whitespace) && (self.at_line_start || line.len() < text.len());
    }

    fn found(&mut self, calls: Vec<TextCall>) {
        self.calls.extend(calls);
        self.blanks.clear();
        (self.fresh, self.at_line_start, self.has_called) = (true, true, true);
    }
}
