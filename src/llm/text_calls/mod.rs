//! Finds tool calls that local models write as text: `<tool_call>…</tool_call>`, and JSON on lines of its own
//! or in a code block. A call names an offered tool; everything else stays text. Text that may become a call
//! is held back.
//!
//! It works character by character, so the size of the pieces does not matter and no text makes it slow.

mod parse;
#[cfg(test)]
mod tests;

pub(super) use parse::TextCall;
use parse::{JsonScan, json_calls, starts, tagged_calls};

const TAG: &str = "<tool_call>";
const END_TAG: &str = "</tool_call>";
const FENCE: &str = "```";
/// Names of code blocks that may hold a call.
const FENCE_NAMES: [&str; 4] = ["", "json", "tool_call", "tool_calls"];
/// The start of a call is checked up to here; its first key and value stand there.
const START_BYTES: usize = 512;

/// What the next character belongs to.
#[derive(Debug, Clone, Copy)]
enum ScanState {
    /// Text. Nothing is held.
    Text,
    /// A tag or a fence.
    Opener,
    /// The content of a tag.
    Tagged,
    /// The name of a code block.
    FenceName,
    /// A JSON value.
    Json,
    /// The rest of the line or of the code block after a JSON value.
    AfterJson,
}

/// Where in the text the next character stands.
#[derive(Debug)]
struct TextPlace {
    at_line_start: bool,
    /// Behind a quotation mark: a quoted call is an example.
    after_quote: bool,
    /// Inside a code block that stands among other words.
    in_example: bool,
}

/// Separates calls from text as the text arrives.
#[derive(Debug)]
pub(super) struct TextCalls {
    names: Vec<String>,
    /// How a call may begin, without white space.
    starts: Vec<String>,
    state: ScanState,
    /// The text that may become calls.
    held: String,
    /// Where the JSON value begins in it.
    json_at: usize,
    json: JsonScan,
    /// The held text begins like a call.
    is_likely: bool,
    /// Calls of the held text.
    pending: Vec<TextCall>,
    /// Blanks at the start or after a call. They are dropped if nothing but calls follows.
    blanks: String,
    /// Nothing but blanks came since the start or the last call.
    is_fresh: bool,
    has_called: bool,
    place: TextPlace,
    text: String,
    calls: Vec<TextCall>,
}

impl TextCalls {
    /// At the start of a text. Only calls of tools with these names count.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            starts: starts(&names),
            names,
            state: ScanState::Text,
            held: String::new(),
            json_at: 0,
            json: JsonScan::default(),
            is_likely: false,
            pending: Vec::new(),
            blanks: String::new(),
            is_fresh: true,
            has_called: false,
            place: TextPlace { at_line_start: true, after_quote: false, in_example: false },
            text: String::new(),
            calls: Vec::new(),
        }
    }

    /// Adds a piece; returns the text that is certainly no call.
    pub(super) fn push(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            match self.state {
                ScanState::Text => self.begin(c),
                ScanState::Opener => self.scan_opener(c),
                ScanState::Tagged => self.scan_tagged(c),
                ScanState::FenceName => self.scan_fence_name(c),
                ScanState::Json => self.scan_json(c),
                ScanState::AfterJson => self.scan_after_json(c),
            }
        }
        std::mem::take(&mut self.text)
    }

    /// The calls found since the last time.
    pub(super) fn take(&mut self) -> Vec<TextCall> {
        std::mem::take(&mut self.calls)
    }

    /// Ends the text; returns the held text that is no call.
    pub(super) fn finish(&mut self) -> String {
        let is_call = match self.state {
            ScanState::AfterJson => true,
            ScanState::Tagged => {
                let content = self.held.get(TAG.len()..).unwrap_or_default();
                // The end tag may be missing or cut.
                let before_cut = content.rsplit_once("</").map_or(content, |(before, _)| before);
                let found = [content, before_cut].iter().find_map(|text| tagged_calls(text, &self.names));
                found.map(|calls| self.pending = calls).is_some()
            }
            _ => false,
        };
        if is_call {
            self.accept(None);
        } else {
            self.refute(None);
        }
        if !self.has_called {
            self.text.push_str(&std::mem::take(&mut self.blanks));
        }
        std::mem::take(&mut self.text)
    }

    fn begin(&mut self, c: char) {
        if self.is_fresh && c.is_whitespace() {
            self.blanks.push(c);
            self.place.at_line_start |= c == '\n';
            return;
        }
        match c {
            '{' | '[' if self.place.at_line_start && !self.place.in_example => self.begin_json(c),
            '<' if !self.place.after_quote && !self.place.in_example => self.hold(c, ScanState::Opener),
            '`' if self.place.at_line_start => self.hold(c, ScanState::Opener),
            _ => self.release(c.encode_utf8(&mut [0; 4])),
        }
    }

    fn hold(&mut self, c: char, state: ScanState) {
        self.held.push(c);
        self.state = state;
    }

    fn begin_json(&mut self, bracket: char) {
        (self.json_at, self.json, self.is_likely) = (self.held.len(), JsonScan::default(), false);
        self.json.ends_with(bracket);
        self.hold(bracket, ScanState::Json);
    }

    fn scan_opener(&mut self, c: char) {
        self.held.push(c);
        match self.held.as_str() {
            TAG => (self.state, self.is_likely) = (ScanState::Tagged, false),
            FENCE if self.is_fresh && !self.place.in_example => self.state = ScanState::FenceName,
            FENCE => {
                self.place.in_example = !self.place.in_example;
                self.refute(None);
            }
            opener if TAG.starts_with(opener) || FENCE.starts_with(opener) => {}
            _ => self.refute_before(c),
        }
    }

    fn scan_fence_name(&mut self, c: char) {
        self.held.push(c);
        let head = self.held.get(FENCE.len()..).unwrap_or_default();
        let name = head.trim_end_matches(['{', '[']).trim_end();
        let is_known = if name.len() < head.len() {
            FENCE_NAMES.contains(&name)
        } else {
            FENCE_NAMES.iter().any(|known| known.starts_with(name))
        };
        if !is_known {
            self.refute_before(c);
        } else if matches!(c, '{' | '[') {
            self.held.pop();
            self.begin_json(c);
        }
    }

    fn scan_tagged(&mut self, c: char) {
        self.held.push(c);
        let content = self.held.get(TAG.len()..).unwrap_or_default();
        match content.strip_suffix(END_TAG).map(|content| tagged_calls(content, &self.names)) {
            None => self.check_start(TAG.len(), c),
            Some(None) => self.refute(None),
            Some(Some(calls)) => {
                self.pending = calls;
                self.accept(None);
            }
        }
    }

    fn scan_json(&mut self, c: char) {
        self.held.push(c);
        if !self.json.ends_with(c) {
            return self.check_start(self.json_at, c);
        }
        match json_calls(self.held.get(self.json_at..).unwrap_or_default(), &self.names) {
            None => self.refute(None),
            Some(calls) => {
                self.pending.extend(calls);
                self.state = ScanState::AfterJson;
            }
        }
    }

    fn scan_after_json(&mut self, c: char) {
        let is_fenced = self.held.starts_with(FENCE);
        match c {
            '`' if is_fenced => {
                self.held.push(c);
                if self.held.ends_with(FENCE) {
                    self.accept(None);
                }
            }
            _ if self.held.ends_with('`') => self.refute(Some(c)),
            '{' | '[' => self.begin_json(c),
            '\n' if !is_fenced => self.accept(Some(c)),
            ',' | ';' => self.held.push(c),
            _ if c.is_whitespace() => self.held.push(c),
            _ => self.refute(Some(c)),
        }
    }

    /// Refutes held text whose content does not begin like a call. `c` is its last character.
    fn check_start(&mut self, content_at: usize, c: char) {
        if self.is_likely {
            return;
        }
        let content = self.held.get(content_at..).unwrap_or_default();
        let start: String = content.chars().filter(|c| !c.is_whitespace()).collect();
        let start = start.strip_prefix('[').unwrap_or(&start);
        if content.len() > START_BYTES || self.starts.iter().any(|known| start.starts_with(known)) {
            self.is_likely = true;
        } else if !self.starts.iter().any(|known| known.starts_with(start)) {
            self.refute_before(c);
        }
    }

    /// The held text before its last character `c` is no call.
    fn refute_before(&mut self, c: char) {
        self.held.pop();
        self.refute(Some(c));
    }

    /// The held text is no call. `next` follows it.
    fn refute(&mut self, next: Option<char>) {
        self.pending.clear();
        self.state = ScanState::Text;
        let held = std::mem::take(&mut self.held);
        self.release(&held);
        if let Some(c) = next {
            self.begin(c);
        }
    }

    /// The held text is calls. `next` follows them.
    fn accept(&mut self, next: Option<char>) {
        self.calls.append(&mut self.pending);
        self.state = ScanState::Text;
        self.held.clear();
        self.blanks.clear();
        (self.is_fresh, self.place.at_line_start, self.has_called) = (true, true, true);
        if let Some(c) = next {
            self.begin(c);
        }
    }

    fn release(&mut self, text: &str) {
        let Some(last) = text.chars().next_back() else { return };
        self.text.push_str(&std::mem::take(&mut self.blanks));
        self.text.push_str(text);
        self.is_fresh = false;
        self.place.after_quote = matches!(last, '`' | '"' | '\'');
        let line = text.rsplit('\n').next().unwrap_or_default();
        let is_new_line = line.len() < text.len();
        self.place.at_line_start =
            (self.place.at_line_start || is_new_line) && line.chars().all(char::is_whitespace);
    }
}
