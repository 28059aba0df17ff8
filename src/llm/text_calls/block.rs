//! A block of text that may be calls, and where it ends. Values are interpreted by `form`.

use super::form::{self, CallGuess, TextCall};

/// Names of code blocks that may hold a call.
const FENCES: [&str; 4] = ["", "json", "tool_call", "tool_calls"];
/// Ends a code block.
const FENCE: &str = "```";
/// The start of a value in which each character is checked; a call has its name there.
const HEAD_BYTES: usize = 512;

/// The tag that begins a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpeningTag {
    ToolCall,
    Function,
    Python,
    Mistral,
    Fence,
}

/// The state of a block after a character.
#[derive(Debug)]
pub(super) enum BlockOutcome {
    /// Not known yet.
    Open(CallBlock),
    /// No call: the held text, and the character that decided it unless it is part of that text.
    Text(String, Option<char>),
    /// Calls, and the character after them if it does not belong to them.
    Calls(Vec<TextCall>, Option<char>),
}

/// The syntax of a block, which says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockSyntax {
    /// JSON on lines of its own.
    Bare,
    /// JSON in a code block.
    Fenced,
    /// JSON behind a tag, up to what is no JSON.
    Python,
    /// One JSON list, or one name with its arguments, behind a tag.
    Mistral,
    /// A call between two tags: the offset of its content, and the closing tag.
    Enclosed(usize, &'static str),
}

/// The part of the block that the next character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockPart {
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
struct JsonScan {
    at: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
    sure: bool,
}

impl JsonScan {
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

/// A block of text that may be calls.
#[derive(Debug)]
pub(super) struct CallBlock {
    form: BlockSyntax,
    part: BlockPart,
    held: String,
    /// Where the head begins.
    head: usize,
    scan: JsonScan,
    calls: Vec<TextCall>,
}

impl CallBlock {
    /// JSON without a tag, at its opening bracket.
    pub(super) fn bare(bracket: char) -> Self {
        let mut block = Self::new(BlockSyntax::Bare, BlockPart::Before, String::new());
        block.begin_value(bracket);
        block
    }

    /// The block after a tag.
    pub(super) fn after(opener: OpeningTag, tag: String) -> Self {
        let (form, part) = match opener {
            OpeningTag::ToolCall => (BlockSyntax::Enclosed(tag.len(), "</tool_call>"), BlockPart::Head),
            OpeningTag::Function => (BlockSyntax::Enclosed(0, "</function>"), BlockPart::Head),
            OpeningTag::Python => (BlockSyntax::Python, BlockPart::Before),
            OpeningTag::Mistral => (BlockSyntax::Mistral, BlockPart::Head),
            OpeningTag::Fence => (BlockSyntax::Fenced, BlockPart::Head),
        };
        Self::new(form, part, tag)
    }

    fn new(form: BlockSyntax, part: BlockPart, held: String) -> Self {
        let length = held.len();
        Self { form, part, held, head: length, scan: JsonScan::default(), calls: Vec::new() }
    }

    /// Adds a character.
    pub(super) fn eat(mut self, c: char, names: &[String]) -> BlockOutcome {
        if let BlockSyntax::Enclosed(from, close) = self.form {
            return self.eat_enclosed(c, (from, close), names);
        }
        match self.part {
            BlockPart::Head if self.form == BlockSyntax::Fenced => self.eat_fence(c),
            BlockPart::Head => self.eat_name(c, names),
            BlockPart::Value => self.eat_value(c, names),
            BlockPart::Before if c.is_whitespace() => self.keep(c),
            BlockPart::Before if is_bracket(c) => {
                self.begin_value(c);
                BlockOutcome::Open(self)
            }
            BlockPart::Before => self.refute(c),
            BlockPart::After | BlockPart::Between => self.eat_after(c),
        }
    }

    fn keep(mut self, c: char) -> BlockOutcome {
        self.held.push(c);
        BlockOutcome::Open(self)
    }

    fn refute(self, c: char) -> BlockOutcome {
        BlockOutcome::Text(self.held, Some(c))
    }

    fn begin_value(&mut self, bracket: char) {
        self.scan = JsonScan { at: self.held.len(), ..JsonScan::default() };
        self.scan.eat(bracket);
        self.held.push(bracket);
        self.part = BlockPart::Value;
    }

    fn eat_fence(mut self, c: char) -> BlockOutcome {
        let name = self.held.get(self.head..).unwrap_or_default();
        let is_known = FENCES.contains(&name.trim_end());
        if is_known && is_bracket(c) {
            self.begin_value(c);
            return BlockOutcome::Open(self);
        }
        if is_known && c.is_whitespace() {
            self.part = if c == '\n' { BlockPart::Before } else { BlockPart::Head };
            return self.keep(c);
        }
        let longer = format!("{name}{c}");
        if FENCES.iter().any(|known| known.starts_with(&longer)) { self.keep(c) } else { self.refute(c) }
    }

    /// `[TOOL_CALLS]` stands before a list of calls, or before a name and its arguments.
    fn eat_name(mut self, c: char, names: &[String]) -> BlockOutcome {
        let name = self.held.get(self.head..).unwrap_or_default().trim_start();
        if name.is_empty() && (c.is_whitespace() || is_bracket(c)) {
            if is_bracket(c) {
                self.begin_value(c);
                return BlockOutcome::Open(self);
            }
            return self.keep(c);
        }
        let bare = name.strip_suffix("[ARGS]").unwrap_or(name);
        if c == '{' && names.iter().any(|offered| offered == bare) {
            let call = TextCall { name: bare.to_owned(), arguments: String::new() };
            self.calls.push(call);
            self.begin_value(c);
            self.scan.sure = true;
            return BlockOutcome::Open(self);
        }
        let longer = format!("{name}{c}");
        let fits = |offered: &String| format!("{offered}[ARGS]").starts_with(&longer);
        if names.iter().any(fits) { self.keep(c) } else { self.refute(c) }
    }

    fn eat_value(mut self, c: char, names: &[String]) -> BlockOutcome {
        let is_end = self.scan.eat(c);
        self.held.push(c);
        let value = self.held.get(self.scan.at..).unwrap_or_default();
        if is_end {
            return self.end_value(names);
        }
        if self.scan.sure || value.len() > HEAD_BYTES {
            return BlockOutcome::Open(self);
        }
        let guess = form::guess(value, names);
        self.follow(guess, c)
    }

    /// Continues as the guess says. `c` is the last held character.
    fn follow(mut self, guess: CallGuess, c: char) -> BlockOutcome {
        if guess == CallGuess::Never {
            self.held.pop();
            return self.refute(c);
        }
        self.scan.sure = guess == CallGuess::Wait;
        BlockOutcome::Open(self)
    }

    fn end_value(mut self, names: &[String]) -> BlockOutcome {
        let value = self.held.get(self.scan.at..).unwrap_or_default();
        let is_named = self.form == BlockSyntax::Mistral && !self.calls.is_empty();
        let begun = if is_named { self.calls.pop() } else { None };
        let found = match begun {
            Some(call) => form::arguments_of(value).map(|arguments| vec![TextCall { arguments, ..call }]),
            None => form::calls(value, names),
        };
        let Some(found) = found else { return BlockOutcome::Text(self.held, None) };
        if self.form == BlockSyntax::Mistral {
            return BlockOutcome::Calls(found, None);
        }
        self.calls.extend(found);
        self.part = BlockPart::After;
        BlockOutcome::Open(self)
    }

    fn eat_after(mut self, c: char) -> BlockOutcome {
        match (self.form, c) {
            (BlockSyntax::Bare, '\n') if self.part == BlockPart::After => {
                BlockOutcome::Calls(self.calls, Some(c))
            }
            (BlockSyntax::Bare, '{' | '[') => BlockOutcome::Calls(self.calls, Some(c)),
            (_, '{' | '[') => {
                self.begin_value(c);
                BlockOutcome::Open(self)
            }
            (_, ',' | ';') if self.part == BlockPart::After => {
                self.part = BlockPart::Between;
                self.keep(c)
            }
            (BlockSyntax::Fenced, '`') => {
                self.held.push(c);
                if self.held.ends_with(FENCE) {
                    BlockOutcome::Calls(self.calls, None)
                } else {
                    BlockOutcome::Open(self)
                }
            }
            (BlockSyntax::Fenced, _) if self.held.ends_with('`') => self.refute(c),
            (_, c) if c.is_whitespace() => self.keep(c),
            (BlockSyntax::Python, c) => BlockOutcome::Calls(self.calls, Some(c)),
            _ => self.refute(c),
        }
    }

    fn eat_enclosed(mut self, c: char, (from, close): (usize, &str), names: &[String]) -> BlockOutcome {
        self.held.push(c);
        let inside = self.held.get(from..).unwrap_or_default();
        if c == '>' && inside.ends_with(close) {
            let inside = if from == 0 { inside } else { inside.strip_suffix(close).unwrap_or(inside) };
            return match form::tagged(inside, names) {
                Some(calls) => BlockOutcome::Calls(calls, None),
                None => BlockOutcome::Text(self.held, None),
            };
        }
        if self.scan.sure || inside.len() > HEAD_BYTES {
            return BlockOutcome::Open(self);
        }
        let guess = form::guess_tagged(inside, names);
        self.follow(guess, c)
    }

    /// The block at the end of the text.
    pub(super) fn end(self, names: &[String]) -> BlockOutcome {
        if let BlockSyntax::Enclosed(from, _) = self.form {
            let inside = self.held.get(from..).unwrap_or_default();
            let without_half_a_tag = inside.rsplit_once("</").map(|(inside, _)| inside);
            let found = form::tagged(inside, names);
            let found = found.or_else(|| form::tagged(without_half_a_tag?, names));
            return found
                .map_or(BlockOutcome::Text(self.held, None), |calls| BlockOutcome::Calls(calls, None));
        }
        match self.part {
            BlockPart::After | BlockPart::Between => BlockOutcome::Calls(self.calls, None),
            _ => BlockOutcome::Text(self.held, None),
        }
    }
}

fn is_bracket(c: char) -> bool {
    matches!(c, '{' | '[')
}
