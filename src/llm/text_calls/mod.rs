//! Tool calls that local models write as text. Owns the forms (`<tool_call>`, `<function=…>`, `<|python_tag|>`,
//! `[TOOL_CALLS]`, fenced and bare JSON) and the holding back of what may still become one; refuses names that are not
//! on offer: everything that is no call stays text, byte for byte.
//!
//! It eats character by character, so slices mean nothing, and it never reads a character twice but the one that
//! refutes a guess, so no text makes it slow.

mod block;
mod form;
#[cfg(test)]
mod tests;

use block::{Block, Fate};

/// A call that was written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextCall {
    /// The tool; one of those on offer.
    pub(super) name: String,
    /// A JSON object's text.
    pub(super) arguments: String,
}

/// What may follow a tag that begins a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    ToolCall,
    Function,
    Python,
    Mistral,
    Fence,
}

/// Tags; none has its own first character further in, but the fence.
const OPENERS: [(&str, Opener); 5] = [
    ("<tool_call>", Opener::ToolCall),
    ("<function=", Opener::Function),
    ("<|python_tag|>", Opener::Python),
    ("[TOOL_CALLS]", Opener::Mistral),
    ("```", Opener::Fence),
];

/// What is known of the text at its end.
#[derive(Debug)]
enum State {
    /// Nothing is held but blanks.
    Plain,
    /// What is held after the blanks may become a tag.
    Tag(String),
    /// What is held after the blanks may become a call.
    Block(Block),
}

/// What is quoted is an example and no call.
#[derive(Debug, Default)]
struct Quotes {
    /// The last character was a quotation mark.
    is_open: bool,
    /// Inside a fenced block that stands among other words.
    in_fence: bool,
}

/// Tells calls from text, as the text arrives.
#[derive(Debug)]
pub(super) struct TextCalls {
    names: Vec<String>,
    state: State,
    /// Blanks at the start of the text or behind a call: they go where what follows them goes.
    blanks: String,
    /// Whether there is nothing but blanks since the start or the last call.
    fresh: bool,
    /// Whether there are nothing but blanks since the last line break.
    at_line_start: bool,
    has_called: bool,
    quotes: Quotes,
    text: String,
    calls: Vec<TextCall>,
}

impl TextCalls {
    /// At the start of a text, with these tools on offer.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            state: State::Plain,
            blanks: String::new(),
            fresh: true,
            at_line_start: true,
            has_called: false,
            quotes: Quotes::default(),
            text: String::new(),
            calls: Vec::new(),
        }
    }

    /// Takes a piece in; returns what is certainly no call.
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

    /// The text has ended: what is no call by now is none.
    pub(super) fn finish(&mut self) -> String {
        match std::mem::replace(&mut self.state, State::Plain) {
            State::Plain => {}
            State::Tag(held) => self.let_go(&held),
            State::Block(block) => {
                let fate = block.end(&self.names);
                self.settle(fate);
            }
        }
        // Blanks behind the last call are nobody's; a text of nothing else is what the model said.
        if !self.has_called {
            self.text.push_str(&std::mem::take(&mut self.blanks));
        }
        std::mem::take(&mut self.text)
    }

    fn eat(&mut self, c: char) {
        match std::mem::replace(&mut self.state, State::Plain) {
            State::Plain => self.begin(c),
            State::Tag(held) => self.eat_in_tag(held, c),
            State::Block(block) => {
                let fate = block.eat(c, &self.names);
                self.settle(fate);
            }
        }
    }

    fn settle(&mut self, fate: Fate) {
        let next = match fate {
            Fate::Open(block) => {
                self.state = State::Block(block);
                None
            }
            Fate::Text(held, next) => {
                self.let_go(&held);
                next
            }
            Fate::Calls(calls, next) => {
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
                self.state = State::Block(Block::bare(c));
                return;
            }
            _ => false,
        };
        if may_open {
            self.state = State::Tag(c.to_string());
        } else {
            self.let_go(c.encode_utf8(&mut [0; 4]));
        }
    }

    fn eat_in_tag(&mut self, mut held: String, c: char) {
        if held == "[" && self.at_line_start && !self.quotes.in_fence && (c == '{' || c.is_whitespace()) {
            let fate = Block::bare('[').eat(c, &self.names);
            self.settle(fate);
            return;
        }
        held.push(c);
        let opener = OPENERS.iter().find(|(tag, _)| *tag == held).map(|(_, opener)| *opener);
        if opener == Some(Opener::Fence) && (self.quotes.in_fence || !self.fresh) {
            self.quotes.in_fence = !self.quotes.in_fence;
            self.let_go(&held);
        } else if let Some(opener) = opener {
            self.state = State::Block(Block::after(opener, held));
        } else if OPENERS.iter().any(|(tag, _)| tag.starts_with(&held)) {
            self.state = State::Tag(held);
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
