//! Splits a command line into simple commands. It expands nothing. Scripts in `$(…)`, backquotes and
//! parentheses stay texts, which the guard splits in turn. A wrong split does no harm: the kernel is the
//! boundary (P5).

use super::command::{CommandEnd, RedirectTarget, ShellCommand, ShellWord, WordStart, is_name_char};

/// Keywords before a command.
const KEYWORDS: [&str; 15] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "coproc", "{", "}", "esac",
    "function",
];
/// The deepest nesting of expansions that is read.
const EXPANSIONS: usize = 16;

pub(super) fn split(source: &str) -> Vec<ShellCommand> {
    let mut splitter = Splitter { chars: source.chars().collect(), ..Splitter::default() };
    splitter.script();
    splitter.commands
}

#[derive(Default)]
struct Splitter {
    chars: Vec<char>,
    at: usize,
    commands: Vec<ShellCommand>,
    command: ShellCommand,
    /// Where the text of the command begins.
    from: usize,
    word: Option<ShellWord>,
    target: Option<RedirectTarget>,
    /// Here-documents before their bodies: index of the command, delimiter, whether tabs are stripped.
    pending: Vec<(usize, ShellWord, bool)>,
    /// Open `case`s, and whether a pattern of one is being read.
    cases: usize,
    is_pattern: bool,
    /// The nesting of expansions around this text.
    depth: usize,
}

impl Splitter {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let is_next = text.chars().enumerate().all(|(at, c)| rest.get(at) == Some(&c));
        self.at = self.at.saturating_add(if is_next { text.chars().count() } else { 0 });
        is_next
    }

    fn skip(&mut self, blanks: &str) {
        while self.peek().is_some_and(|c| blanks.contains(c)) {
            self.bump();
        }
    }

    fn text_since(&self, from: usize) -> String {
        self.chars.get(from..self.at).unwrap_or_default().iter().collect()
    }

    fn script(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {
                    self.end_word();
                    self.skip(" \t");
                }
                '#' if self.word.is_none() => {
                    self.end_text();
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.bump();
                    }
                }
                '\n' | ';' | '|' | ')' => self.separator(c),
                '&' if self.chars.get(self.at.saturating_add(1)).is_none_or(|next| *next != '>') => {
                    self.separator(c);
                }
                '(' => self.parenthesis(),
                '<' | '>' | '&' => self.redirection(),
                _ => self.character(),
            }
        }
        self.end_command(CommandEnd::Next);
        self.documents();
    }

    /// Ends a command at an operator.
    fn separator(&mut self, c: char) {
        // It may be the `esac` that ends the patterns.
        self.end_word();
        if self.is_pattern && matches!(c, '|' | ')') {
            // The text before the `)` of a pattern is data.
            self.command = ShellCommand::default();
            self.is_pattern = c == '|';
            self.bump();
            self.from = self.at;
            return;
        }
        if self.is_in_test() {
            self.bump();
            return;
        }
        let is_double = self.chars.get(self.at.saturating_add(1)) == Some(&c);
        self.end_command(match c {
            '|' if !is_double => CommandEnd::Pipe,
            '&' if !is_double => CommandEnd::Background,
            _ => CommandEnd::Next,
        });
        if c == ')' {
            self.is_pattern = false;
        }
        self.bump();
        match c {
            '\n' => self.documents(),
            ';' if self.eat(";") | self.eat("&") => self.is_pattern = self.cases > 0,
            _ => drop(self.eat("|") || self.eat("&")),
        }
        self.from = self.at;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let is_descriptor = matches!(self.peek(), Some('<' | '>'))
            && !word.is_quoted
            && word.text.bytes().all(|b| b.is_ascii_digit());
        match self.target.take() {
            Some(RedirectTarget::Write) => self.command.writes.push(word),
            Some(RedirectTarget::Read) => {}
            Some(RedirectTarget::Text) => self.command.input.push_str(&word.text),
            Some(RedirectTarget::Document { strips_tabs }) => {
                self.pending.push((self.commands.len(), word, strips_tabs));
            }
            None if is_descriptor => {}
            None if self.command.words.is_empty()
                && KEYWORDS.iter().any(|keyword| word.is_keyword(keyword)) =>
            {
                if word.is_keyword("esac") {
                    (self.cases, self.is_pattern) = (self.cases.saturating_sub(1), false);
                }
                if word.is_keyword("function") {
                    self.named_function();
                }
                self.from = self.at;
            }
            None if self.ends_head(&word) => {
                self.command.words.clear();
                self.from = self.at;
            }
            None => self.command.words.push(word),
        }
    }

    /// `do` or `{` after the head of a loop without a list.
    fn ends_head(&self, word: &ShellWord) -> bool {
        let words = &self.command.words;
        let is_head = words.first().is_some_and(|word| word.is_keyword("for") || word.is_keyword("select"));
        let has_list = || words.iter().any(|word| word.is_keyword("in"));
        is_head && (word.is_keyword("do") || word.is_keyword("{")) && !has_list()
    }

    /// Between `[[` and `]]`, where operators are data.
    fn is_in_test(&self) -> bool {
        let is_end = |word: &ShellWord| word.is_keyword("]]");
        self.command.words.first().is_some_and(|word| word.is_keyword("[["))
            && !self.word.iter().chain(&self.command.words).any(is_end)
    }

    /// Ends the text of the command.
    fn end_text(&mut self) {
        self.end_word();
        if self.command.text.is_empty() {
            self.text_since(self.from).trim().clone_into(&mut self.command.text);
        }
    }

    fn end_command(&mut self, end: CommandEnd) {
        self.end_text();
        let mut command = std::mem::take(&mut self.command);
        let begins_with = |keyword| command.words.first().is_some_and(|word| word.is_keyword(keyword));
        if begins_with("case") && !command.words.iter().any(|word| word.is_keyword("esac")) {
            (self.cases, self.is_pattern) = (self.cases.saturating_add(1), true);
        }
        if ["case", "for", "select", "[["].into_iter().any(begins_with) {
            // The words of such a head are data.
            command.words.clear();
        }
        let is_empty = command.words.is_empty() && command.writes.is_empty();
        let has_document = self.pending.iter().any(|(number, ..)| *number == self.commands.len());
        if !is_empty || has_document || !command.nested.is_empty() || !command.functions.is_empty() {
            self.commands.push(ShellCommand { end, ..command });
        }
    }

    /// A subshell, arithmetic, the elements of an array, or the parentheses of a function.
    fn parenthesis(&mut self) {
        self.bump();
        if self.is_pattern {
            return;
        }
        if self.word.as_ref().is_some_and(ShellWord::is_assignment) {
            // The elements of an array are data, except substitutions.
            let inner = self.balanced('(', ')', "'\"");
            self.nested(&inner);
            return;
        }
        let inner = self.balanced('(', ')', "'\"");
        if !inner.trim().is_empty() {
            return self.group(inner);
        }
        let word = self.word.take().or_else(|| self.command.words.pop());
        self.command.words.clear();
        self.function(word.unwrap_or_default().text);
    }

    /// A script in parentheses. In arithmetic, only substitutions are scripts.
    fn group(&mut self, inner: String) {
        if inner.starts_with('(') && inner.ends_with(')') {
            self.nested(&inner);
        } else {
            self.command.nested.push(inner);
        }
    }

    /// `NAME { … }` or `NAME() { … }`, after `function`.
    fn named_function(&mut self) {
        let from = self.at;
        while self.peek().is_some_and(|c| !"{(\n;".contains(c)) {
            self.bump();
        }
        let name = self.text_since(from).trim().to_owned();
        self.eat("()");
        self.function(name);
    }

    /// The body of a function. Bash needs a blank after the brace; other shells may not.
    fn function(&mut self, name: String) {
        self.skip(" \t\n");
        let (open, close) = if self.peek() == Some('{') { ('{', '}') } else { ('(', ')') };
        if self.peek() == Some(open) {
            self.bump();
            let body = self.balanced(open, close, "'\"");
            self.command.functions.push((name, body));
        }
    }

    fn redirection(&mut self) {
        self.end_word();
        let target = match () {
            () if self.eat("<(") || self.eat(">(") => {
                let inner = self.balanced('(', ')', "'\"");
                self.command.nested.push(inner);
                return;
            }
            () if self.eat("<<<") => RedirectTarget::Text,
            () if self.eat("<<-") => RedirectTarget::Document { strips_tabs: true },
            () if self.eat("<<") => RedirectTarget::Document { strips_tabs: false },
            () if self.eat("<>") => RedirectTarget::Write,
            () if self.eat("<&") || self.eat("<") => RedirectTarget::Read,
            () => {
                // Longer operators first.
                ["&>>", "&>", ">>", ">|", ">&", ">"].into_iter().find(|text| self.eat(text));
                RedirectTarget::Write
            }
        };
        self.target = Some(target);
    }

    /// A character of a word, a quote, or an expansion.
    fn character(&mut self) {
        let mut word = self.word.take().unwrap_or_default();
        let is_first = word.text.is_empty() && !word.is_quoted;
        match self.bump() {
            Some('\'') => {
                word.is_quoted = true;
                while let Some(c) = self.bump().filter(|c| *c != '\'') {
                    word.push(c);
                }
            }
            Some('"') => {
                self.quoted(&mut word);
                word.is_quoted = true;
            }
            Some('\\') => match self.bump() {
                Some('\n') if is_first => return,
                Some('\n') | None => {}
                Some(c) => {
                    word.push(c);
                    word.is_quoted = true;
                }
            },
            Some('$') if self.eat("'") => {
                word.is_quoted = true;
                while let Some(c) = self.bump().filter(|c| *c != '\'') {
                    word.push(c);
                    if c == '\\' {
                        self.bump();
                    }
                }
            }
            Some(c @ ('$' | '`')) => self.expansion(c, &mut word, "'\""),
            Some(c) => {
                if is_first && c == '~' {
                    word.start = WordStart::Home;
                }
                word.push(c);
            }
            None => {}
        }
        self.word = Some(word);
    }

    /// Text up to the closing double quote, or the end.
    fn quoted(&mut self, word: &mut ShellWord) {
        while let Some(c) = self.bump().filter(|c| *c != '"') {
            match c {
                '\\' => match self.bump() {
                    Some('\n') | None => {}
                    Some(c) => {
                        if !"$`\"\\".contains(c) {
                            word.push('\\');
                        }
                        word.push(c);
                    }
                },
                '$' | '`' => self.expansion(c, word, "\""),
                _ => word.push(c),
            }
        }
    }

    /// An expansion, of which the first character is read.
    fn expansion(&mut self, first: char, word: &mut ShellWord, quotes: &str) {
        let (start, is_first) = (self.at, word.text.is_empty());
        let written = match (first, self.peek()) {
            ('`', _) => {
                let inner = self.backquoted();
                self.command.nested.push(inner);
                "$()".to_owned()
            }
            (_, Some('(')) => {
                self.bump();
                let inner = self.balanced('(', ')', "'\"");
                self.group(inner);
                "$()".to_owned()
            }
            (_, Some('{')) => {
                self.bump();
                let inner = self.balanced('{', '}', quotes);
                self.nested(&inner);
                format!("${{{inner}}}")
            }
            (_, Some(c)) if is_name_char(c) => {
                while self.peek().is_some_and(is_name_char) {
                    self.bump();
                }
                format!("${}", self.text_since(start))
            }
            (_, Some(c)) if "@*#?$!-".contains(c) => {
                self.bump();
                format!("${c}")
            }
            // `$"…"` is a quoted text.
            (_, Some('"')) => return,
            _ => return word.push('$'),
        };
        if is_first {
            let is_home = written == "$HOME" || written == "${HOME}";
            word.start = if is_home { WordStart::Home } else { WordStart::Expansion };
        }
        word.text.push_str(&written);
    }

    /// Records the scripts in the substitutions of a text.
    fn nested(&mut self, text: &str) {
        if self.depth >= EXPANSIONS {
            return;
        }
        let depth = self.depth.saturating_add(1);
        let mut inner = Self { chars: text.chars().collect(), depth, ..Self::default() };
        while inner.at < inner.chars.len() {
            inner.quoted(&mut ShellWord::default());
        }
        self.command.nested.append(&mut inner.command.nested);
    }

    fn backquoted(&mut self) -> String {
        let mut inner = String::new();
        while let Some(c) = self.bump().filter(|c| *c != '`') {
            let escaped = self.peek().filter(|next| c == '\\' && "`\\$".contains(*next));
            if escaped.is_some() {
                self.bump();
            }
            inner.push(escaped.unwrap_or(c));
        }
        inner
    }

    /// Text up to the character that closes it, or the end; quoted ones do not count.
    fn balanced(&mut self, open: char, close: char, quotes: &str) -> String {
        let (from, mut depth, mut quote) = (self.at, 1_usize, None);
        while let Some(c) = self.peek() {
            match (c, quote) {
                ('\\', Some('"') | None) => drop(self.bump()),
                (_, None) if quotes.contains(c) => quote = Some(c),
                (_, Some(end)) if c == end => quote = None,
                (_, None) if c == open => depth = depth.saturating_add(1),
                (_, None) if c == close => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            self.bump();
        }
        let inner = self.text_since(from);
        self.bump();
        inner
    }

    /// Reads the bodies of here-documents, at the start of a line.
    fn documents(&mut self) {
        for (number, end, strips_tabs) in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            while self.peek().is_some() {
                let from = self.at;
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
                let line = self.text_since(from);
                self.bump();
                let line = if strips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == end.text {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if !end.is_quoted {
                self.nested(&body);
            }
            let nested = std::mem::take(&mut self.command.nested);
            if let Some(command) = self.commands.get_mut(number) {
                command.input.push_str(&body);
                command.nested.extend(nested);
            }
        }
        self.from = self.at;
    }
}
