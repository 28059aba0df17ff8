//! A place in a text. Owns the characters and how far they are read; refuses to know what they mean.

/// A text, read from left to right.
pub(super) struct Cursor {
    chars: Vec<char>,
    at: usize,
}

impl Cursor {
    /// At the start of the text.
    pub(super) fn new(text: &str) -> Self {
        Self { chars: text.chars().collect(), at: 0 }
    }

    /// How far it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes somewhere, the end at most.
    pub(super) fn go(&mut self, at: usize) {
        self.at = at.min(self.chars.len());
    }

    /// Goes to the end.
    pub(super) fn finish(&mut self) {
        self.at = self.chars.len();
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.ahead(0)
    }

    /// The character so many places ahead.
    pub(super) fn ahead(&self, places: usize) -> Option<char> {
        self.chars.get(self.at.saturating_add(places)).copied()
    }

    /// Reads a character.
    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(next)
    }

    /// Reads this text, if it is next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next = text.chars().enumerate().all(|(at, c)| self.ahead(at) == Some(c));
        if is_next {
            self.at = self.at.saturating_add(text.chars().count());
        }
        is_next
    }

    /// What was read since.
    pub(super) fn since(&self, start: usize) -> String {
        self.chars.get(start..self.at).unwrap_or_default().iter().collect()
    }

    /// Reads the rest of the line with its end.
    pub(super) fn line(&mut self) -> Option<String> {
        let start = self.at;
        self.peek()?;
        self.skip_line();
        let line = self.since(start);
        self.bump();
        Some(line)
    }

    /// Goes to the end of the line.
    pub(super) fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.bump();
        }
    }

    /// Skips blanks and continued lines; line ends stay.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => drop(self.bump()),
                Some('\\') if self.ahead(1) == Some('\n') => drop(self.eat("\\\n")),
                _ => return,
            }
        }
    }

    /// Skips blanks and line ends.
    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n')) {
            self.bump();
        }
    }
}
