//! How the parser reads words: quotes, escapes, expansions. Owns what ends a word and what a quote protects; the insides
//! of command substitutions are put aside as scripts of their own.

use super::parser::{Parser, Until};
use super::word::{Piece, Word, is_name_char};

impl Parser {
    /// Reads a word; an empty one where none begins.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        while let Some(c) = self.cursor.peek() {
            match c {
                '<' | '>' if self.cursor.ahead(1) == Some('(') => {
                    self.cursor.go(self.cursor.at().saturating_add(2));
                    word.pieces.push(self.substitution());
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => {
                    self.cursor.bump();
                    self.piece(c, &mut word);
                }
            }
        }
        word
    }

    fn piece(&mut self, c: char, word: &mut Word) {
        match c {
            '\\' => match self.cursor.bump() {
                Some('\n') | None => {}
                Some(escaped) => word.push(escaped, true),
            },
            '\'' => {
                word.pieces.push(Piece::Literal(String::new()));
                while let Some(quoted) = self.cursor.bump().filter(|c| *c != '\'') {
                    word.push(quoted, true);
                }
            }
            '"' => self.double_quoted(word),
            '$' => self.dollar(false, word),
            '`' => word.pieces.push(self.backquoted()),
            plain => word.push(plain, false),
        }
    }

    fn double_quoted(&mut self, word: &mut Word) {
        word.pieces.push(Piece::Literal(String::new()));
        while let Some(c) = self.cursor.bump() {
            match c {
                '"' => return,
                '\\' => match self.cursor.peek() {
                    Some('\n') => drop(self.cursor.bump()),
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                        self.cursor.bump();
                        word.push(escaped, true);
                    }
                    _ => word.push('\\', true),
                },
                '$' => self.dollar(true, word),
                '`' => word.pieces.push(self.backquoted()),
                quoted => word.push(quoted, true),
            }
        }
    }

    /// What a dollar sign, just read, stands for.
    pub(super) fn dollar(&mut self, is_quoted: bool, word: &mut Word) {
        match self.cursor.peek() {
            Some('(') if self.arithmetic() => word.pieces.push(Piece::Unknown),
            Some('(') => {
                self.cursor.bump();
                word.pieces.push(self.substitution());
            }
            Some('{') => {
                self.cursor.bump();
                word.pieces.push(self.braced(is_quoted));
            }
            Some('\'') if !is_quoted => {
                self.cursor.bump();
                self.ansi_quoted(word);
            }
            // `$"…"` is a quote as any other; the loop reads it next.
            Some('"') if !is_quoted => {}
            Some(c) if is_name_char(c) && !c.is_ascii_digit() => {
                let start = self.cursor.at();
                while self.cursor.peek().is_some_and(is_name_char) {
                    self.cursor.bump();
                }
                word.pieces.push(Piece::Variable(self.cursor.since(start)));
            }
            Some(c @ ('0'..='9' | '?' | '$' | '!' | '@' | '*' | '#' | '-')) => {
                self.cursor.bump();
                word.pieces.push(Piece::Variable(c.to_string()));
            }
            _ => word.push('$', true),
        }
    }

    /// The rest of `$(…)`, `<(…)` or `>(…)`.
    fn substitution(&mut self) -> Piece {
        let start = self.cursor.at();
        let outer = std::mem::take(&mut self.sources);
        self.items(Until::Parenthesis);
        self.sources = outer;
        let source = self.cursor.since(start);
        self.sources.push(source.strip_suffix(')').unwrap_or(&source).to_owned());
        Piece::Unknown
    }

    /// The rest of `` `…` ``, whose inside has escapes of its own.
    pub(super) fn backquoted(&mut self) -> Piece {
        let mut source = String::new();
        while let Some(c) = self.cursor.bump().filter(|c| *c != '`') {
            match self.cursor.peek() {
                Some(escaped @ ('`' | '\\' | '$')) if c == '\\' => {
                    self.cursor.bump();
                    source.push(escaped);
                }
                _ => source.push(c),
            }
        }
        self.sources.push(source);
        Piece::Unknown
    }

    /// The rest of `${…}`: the name counts, what follows may hold substitutions.
    fn braced(&mut self, is_quoted: bool) -> Piece {
        let start = self.cursor.at();
        while self.cursor.peek().is_some_and(is_name_char) {
            self.cursor.bump();
        }
        let name = self.cursor.since(start);
        if !self.enter() {
            return Piece::Unknown;
        }
        // Within double quotes a single quote protects nothing in a word that is put in, but does so in a pattern.
        let quotes = !is_quoted || matches!(self.cursor.peek(), Some('#' | '%' | '/' | '^' | ','));
        let mut ignored = Word::default();
        while let Some(c) = self.cursor.bump().filter(|c| *c != '}') {
            if quotes || c != '\'' {
                self.piece(c, &mut ignored);
            }
        }
        self.leave();
        if name.is_empty() { Piece::Unknown } else { Piece::Variable(name) }
    }

    /// `((…))`, as bash tells it from a subshell within a subshell: by its end. Substitutions count in it, nothing else.
    pub(super) fn arithmetic(&mut self) -> bool {
        let start = self.cursor.at();
        let Some(end) = self.end_of_arithmetic().filter(|_| self.cursor.ahead(1) == Some('(')) else {
            return false;
        };
        self.cursor.go(start.saturating_add(2));
        let mut ignored = Word::default();
        while self.cursor.at() < end {
            match self.cursor.bump() {
                Some('$') => self.dollar(true, &mut ignored),
                Some('`') => drop(self.backquoted()),
                _ => {}
            }
        }
        self.cursor.go(self.cursor.at().max(end.saturating_add(2)));
        true
    }

    /// Where the `))` is that belongs to the `((` ahead.
    fn end_of_arithmetic(&self) -> Option<usize> {
        let (mut open, mut ahead) = (0_usize, 2_usize);
        let mut quote = None;
        loop {
            match self.cursor.ahead(ahead)? {
                '\\' if quote != Some('\'') => ahead = ahead.saturating_add(1),
                c if quote == Some(c) => quote = None,
                _ if quote.is_some() => {}
                c @ ('\'' | '"') => quote = Some(c),
                '(' => open = open.saturating_add(1),
                ')' if open > 0 => open = open.saturating_sub(1),
                ')' if self.cursor.ahead(ahead.saturating_add(1)) == Some(')') => {
                    return Some(self.cursor.at().saturating_add(ahead));
                }
                ')' => return None,
                _ => {}
            }
            ahead = ahead.saturating_add(1);
        }
    }

    /// The rest of `$'…'`.
    fn ansi_quoted(&mut self, word: &mut Word) {
        word.pieces.push(Piece::Literal(String::new()));
        while let Some(c) = self.cursor.bump().filter(|c| *c != '\'') {
            let meant = if c == '\\' { self.ansi_escape() } else { Some(c) };
            if let Some(meant) = meant {
                word.push(meant, true);
            }
        }
    }

    fn ansi_escape(&mut self) -> Option<char> {
        match self.cursor.bump()? {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'x' => self.code(16, 2, 0),
            'u' => self.code(16, 4, 0),
            'U' => self.code(16, 8, 0),
            digit @ '0'..='7' => self.code(8, 2, digit.to_digit(8)?),
            other => Some(other),
        }
    }

    fn code(&mut self, radix: u32, digits: usize, begun: u32) -> Option<char> {
        let mut code = begun;
        for _ in 0..digits {
            let Some(digit) = self.cursor.peek().and_then(|c| c.to_digit(radix)) else { break };
            self.cursor.bump();
            code = code.saturating_mul(radix).saturating_add(digit);
        }
        char::from_u32(code)
    }
}
