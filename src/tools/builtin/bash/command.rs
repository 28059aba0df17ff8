//! Words and simple commands of a command line, as the splitter finds them.

/// The base of a path in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WordStart {
    /// As written.
    #[default]
    Text,
    /// `~` or `$HOME`.
    Home,
    /// A variable or a substitution.
    Expansion,
}

/// A word without its quotes.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellWord {
    /// Variables are written by name, as an inner shell would read them.
    pub(super) text: String,
    /// The same without expansions.
    pub(super) fixed: String,
    pub(super) start: WordStart,
    pub(super) is_quoted: bool,
}

impl ShellWord {
    /// `NAME=value`, `NAME+=value` or `NAME[1]=value`.
    pub(super) fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.fixed.split_once('=') else { return false };
        let name = name.strip_suffix('+').unwrap_or(name).split('[').next().unwrap_or_default();
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name_char)
    }

    /// Whether it is this word without quotes and expansions.
    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        !self.is_quoted && self.fixed == keyword && self.text == keyword
    }

    pub(super) fn push(&mut self, c: char) {
        self.text.push(c);
        self.fixed.push(c);
    }
}

/// The operator after a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CommandEnd {
    /// `;`, `&&`, `||`, a line end, the end.
    #[default]
    Next,
    /// `|` or `|&`.
    Pipe,
    /// `&`.
    Background,
}

/// A simple command.
#[derive(Debug, Default)]
pub(super) struct ShellCommand {
    /// As written, without keywords before it.
    pub(super) text: String,
    pub(super) words: Vec<ShellWord>,
    /// Files that redirections write.
    pub(super) writes: Vec<ShellWord>,
    /// Its here-documents and here-strings.
    pub(super) input: String,
    /// Scripts in its substitutions and parentheses.
    pub(super) nested: Vec<String>,
    /// Functions that it declares: name and body.
    pub(super) functions: Vec<(String, String)>,
    pub(super) end: CommandEnd,
}

impl ShellCommand {
    /// The command word and its arguments, without the assignments before them.
    pub(super) fn command(&self) -> &[ShellWord] {
        let at = self.words.iter().position(|word| !word.is_assignment()).unwrap_or(self.words.len());
        self.words.get(at..).unwrap_or_default()
    }
}

/// Whether variable names may contain it.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The target of the next word.
#[derive(Debug, Clone, Copy)]
pub(super) enum RedirectTarget {
    /// To a file that is written.
    Write,
    /// To a file or descriptor that is read.
    Read,
    /// To standard input.
    Text,
    /// To the end of a here-document.
    Document { strips_tabs: bool },
}
