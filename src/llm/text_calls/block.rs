//! A stretch of text that may be calls. Owns where each form ends; refuses to guess what the values mean (`form` does).

use super::form::{self, Guess};
use super::{Opener, TextCall};

/// Names of code blocks that may hold a call.
const FENCES: [&str; 4] = ["", "json", "tool_call", "tool_calls"];
/// Ends a code block.
const FENCE: &str = "```";
/// How far into a value it is asked, at each character, whether it may still be a call; a call has said its name by
/// then.
const HEAD_BYTES: usize = 512;

/// What has become of it.
#[derive(Debug)]
pub(super) enum Fate {
    /// Not known yet.
    Open(Block),
    /// No call: what was held, and the character that told so, if what follows may begin with it.
    Text(String, Option<char>),
    /// Calls, and the character behind them, if it is none of theirs.
    Calls(Vec<TextCall>, Option<char>),
}

/// The form, which says what ends the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// JSON on lines of its own.
    Bare,
    /// JSON in a code block.
    Fenced,
    /// JSON behind a tag, up to what is no JSON.
    Python,
    /// One JSON list, or one name with its arguments, behind a tag.
    Mistral,
    /// A call between two tags: from this byte on it is asked about, and this ends it.
    Enclosed(usize, &'static str),
}

/// Where in the block the next character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// In the name of a code block, or of a tool.
    Head,
    /// Before the first value.
    Before,
    /// In a value.
    Value,
    /// Behind one.
    After,
    /// Behind a separator.
    Between,
}

/// How far a JSON value has been read.
#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
    sure: bool,
}

impl Scan {
    /// Whether the value ends with this character.
    fn eat(&mut self, c: char) -> bool {
        if self.in_text {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                '"' => self.in_text = false,
                _ => {}
            }
            return false;
        }
        match c {
            '"' => self.in_text = true,
            '{' | '[' => self.depth = self.depth.saturating_add(1),
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

/// A stretch of text that may be calls.
#[derive(Debug)]
pub(super) struct Block {
    form: Form,
    part: Part,
    held: String,
    /// Where the head begins.
    head: usize,
    scan: Scan,
    calls: Vec<TextCall>,
}

impl Block {
    /// JSON without a tag, at its opening bracket.
    pub(super) fn bare(bracket: char) -> Self {
        let mut block = Self::new(Form::Bare, Part::Before, String::new());
        block.begin_value(bracket);
        block
    }

    /// What follows a tag.
    pub(super) fn after(opener: Opener, tag: String) -> Self {
        let (form, part) = match opener {
            Opener::ToolCall => (Form::Enclosed(tag.len(), "</tool_call>"), Part::Head),
            Opener::Function => (Form::Enclosed(0, "</function>"), Part::Head),
            Opener::Python => (Form::Python, Part::Before),
            Opener::Mistral => (Form::Mistral, Part::Head),
            Opener::Fence => (Form::Fenced, Part::Head),
        };
        Self::new(form, part, tag)
    }

    fn new(form: Form, part: Part, held: String) -> Self {
        let length = held.len();
        Self { form, part, held, head: length, scan: Scan::default(), calls: Vec::new() }
    }

    /// Takes a character in.
    pub(super) fn eat(mut self, c: char, names: &[String]) -> Fate {
        if let Form::Enclosed(from, close) = self.form {
            return self.eat_enclosed(c, (from, close), names);
        }
        match self.part {
            Part::Head if self.form == Form::Fenced => self.eat_fence(c),
            Part::Head => self.eat_name(c, names),
            Part::Value => self.eat_value(c, names),
            Part::Before if c.is_whitespace() => self.keep(c),
            Part::Before if is_bracket(c) => {
                self.begin_value(c);
                Fate::Open(self)
            }
            Part::Before => self.refute(c),
            Part::After | Part::Between => self.eat_after(c),
        }
    }

    fn keep(mut self, c: char) -> Fate {
        self.held.push(c);
        Fate::Open(self)
    }

    fn refute(self, c: char) -> Fate {
        Fate::Text(self.held, Some(c))
    }

    fn begin_value(&mut self, bracket: char) {
        self.scan = Scan { at: self.held.len(), ..Scan::default() };
        self.scan.eat(bracket);
        self.held.push(bracket);
        self.part = Part::Value;
    }

    fn eat_fence(mut self, c: char) -> Fate {
        let name = self.held.get(self.head..).unwrap_or_default();
        let is_known = FENCES.contains(&name.trim_end());
        if is_known && is_bracket(c) {
            self.begin_value(c);
            return Fate::Open(self);
        }
        if is_known && c.is_whitespace() {
            self.part = if c == '\n' { Part::Before } else { Part::Head };
            return self.keep(c);
        }
        let longer = format!("{name}{c}");
        if FENCES.iter().any(|known| known.starts_with(&longer)) { self.keep(c) } else { self.refute(c) }
    }

    /// `[TOOL_CALLS]` stands before a list of calls, or before a name and its arguments.
    fn eat_name(mut self, c: char, names: &[String]) -> Fate {
        let name = self.held.get(self.head..).unwrap_or_default().trim_start();
        if name.is_empty() && (c.is_whitespace() || is_bracket(c)) {
            if is_bracket(c) {
                self.begin_value(c);
                return Fate::Open(self);
            }
            return self.keep(c);
        }
        let bare = name.strip_suffix("[ARGS]").unwrap_or(name);
        if c == '{' && names.iter().any(|offered| offered == bare) {
            let call = TextCall { name: bare.to_owned(), arguments: String::new() };
            self.calls.push(call);
            self.begin_value(c);
            self.scan.sure = true;
            return Fate::Open(self);
        }
        let longer = format!("{name}{c}");
        let fits = |offered: &String| format!("{offered}[ARGS]").starts_with(&longer);
        if names.iter().any(fits) { self.keep(c) } else { self.refute(c) }
    }

    fn eat_value(mut self, c: char, names: &[String]) -> Fate {
        let is_end = self.scan.eat(c);
        self.held.push(c);
        let value = self.held.get(self.scan.at..).unwrap_or_default();
        if is_end {
            return self.end_value(names);
        }
        if self.scan.sure || value.len() > HEAD_BYTES {
            return Fate::Open(self);
        }
        let guess = form::guess(value, names);
        self.follow(guess, c)
    }

    /// Goes on as the guess says, which `c` (held already) has led to.
    fn follow(mut self, guess: Guess, c: char) -> Fate {
        if guess == Guess::Never {
            self.held.pop();
            return self.refute(c);
        }
        self.scan.sure = guess == Guess::Wait;
        Fate::Open(self)
    }

    fn end_value(mut self, names: &[String]) -> Fate {
        let value = self.held.get(self.scan.at..).unwrap_or_default();
        let is_named = self.form == Form::Mistral && !self.calls.is_empty();
        let begun = if is_named { self.calls.pop() } else { None };
        let found = match begun {
            Some(call) => form::arguments_of(value).map(|arguments| vec![TextCall { arguments, ..call }]),
            None => form::calls(value, names),
        };
        let Some(found) = found else { return Fate::Text(self.held, None) };
        if self.form == Form::Mistral {
            return Fate::Calls(found, None);
        }
        self.calls.extend(found);
        self.part = Part::After;
        Fate::Open(self)
    }

    fn eat_after(mut self, c: char) -> Fate {
        match (self.form, c) {
            (Form::Bare, '\n') if self.part == Part::After => Fate::Calls(self.calls, Some(c)),
            (Form::Bare, '{' | '[') => Fate::Calls(self.calls, Some(c)),
            (_, '{' | '[') => {
                self.begin_value(c);
                Fate::Open(self)
            }
            (_, ',' | ';') if self.part == Part::After => {
                self.part = Part::Between;
                self.keep(c)
            }
            (Form::Fenced, '`') => {
                self.held.push(c);
                if self.held.ends_with(FENCE) { Fate::Calls(self.calls, None) } else { Fate::Open(self) }
            }
            (Form::Fenced, _) if self.held.ends_with('`') => self.refute(c),
            (_, c) if c.is_whitespace() => self.keep(c),
            (Form::Python, c) => Fate::Calls(self.calls, Some(c)),
            _ => self.refute(c),
        }
    }

    fn eat_enclosed(mut self, c: char, (from, close): (usize, &str), names: &[String]) -> Fate {
        self.held.push(c);
        let inside = self.held.get(from..).unwrap_or_default();
        if c == '>' && inside.ends_with(close) {
            let inside = if from == 0 { inside } else { inside.strip_suffix(close).unwrap_or(inside) };
            return match form::tagged(inside, names) {
                Some(calls) => Fate::Calls(calls, None),
                None => Fate::Text(self.held, None),
            };
        }
        if self.scan.sure || inside.len() > HEAD_BYTES {
            return Fate::Open(self);
        }
        let guess = form::guess_tagged(inside, names);
        self.follow(guess, c)
    }

    /// What it is when nothing follows.
    pub(super) fn end(self, names: &[String]) -> Fate {
        if let Form::Enclosed(from, _) = self.form {
            let inside = self.held.get(from..).unwrap_or_default();
            let without_half_a_tag = inside.rsplit_once("</").map(|(inside, _)| inside);
            let found = form::tagged(inside, names);
            let found = found.or_else(|| form::tagged(without_half_a_tag?, names));
            return found.map_or(Fate::Text(self.held, None), |calls| Fate::Calls(calls, None));
        }
        match self.part {
            Part::After | Part::Between => Fate::Calls(self.calls, None),
            _ => Fate::Text(self.held, None),
        }
    }
}

fn is_bracket(c: char) -> bool {
    matches!(c, '{' | '[')
}
