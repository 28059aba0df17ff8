//! A command line taken apart. Owns the shape: items, segments, redirects, here-documents; refuses to judge.

use super::word::Word;

/// What a parse came to.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// In order.
    pub(super) items: Vec<Item>,
    /// Here-documents; redirects name them by their place.
    pub(super) documents: Vec<Document>,
    /// It is nested deeper than anybody writes: the rest was not read.
    pub(super) is_too_deep: bool,
}

/// A command and what joins it to the next one.
#[derive(Debug)]
pub(super) struct Item {
    /// The command.
    pub(super) node: Node,
    /// What follows it.
    pub(super) joint: Joint,
}

/// A command, simple or compound.
#[derive(Debug)]
pub(super) enum Node {
    /// A simple command.
    Segment(Segment),
    /// `{ … }`, or a branch of a `case`.
    Group(Vec<Item>),
    /// `( … )`: what it changes, it changes for itself.
    Subshell(Vec<Item>),
    /// `NAME() { … }`.
    Function(String, Vec<Item>),
}

/// What follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// `;`, `&&`, `||`, a new line, the end.
    Next,
    /// `|` or `|&`.
    Pipe,
    /// `&`.
    Background,
}

/// A simple command.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// As written.
    pub(super) text: String,
    /// Assignments, the command word, arguments; none for the head of a loop.
    pub(super) words: Vec<Word>,
    /// Wherever they stand in it.
    pub(super) redirects: Vec<Redirect>,
    /// The insides of its command substitutions: scripts of their own.
    pub(super) sources: Vec<String>,
}

/// Where a stream comes from or goes to.
#[derive(Debug)]
pub(super) enum Redirect {
    /// `<`, and descriptors.
    Read,
    /// `>`, `>>`, `>|`, `&>`, `<>`.
    Write(Word),
    /// `<<`: which document.
    Document(usize),
    /// `<<<`.
    Text(Word),
}

/// A here-document.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Its text.
    pub(super) body: String,
    /// The insides of its command substitutions, if its end is not quoted.
    pub(super) sources: Vec<String>,
}

impl Segment {
    /// The command and its arguments, assignments left out.
    pub(super) fn command(&self) -> &[Word] {
        let at = self.words.iter().position(|word| !word.is_assignment()).unwrap_or(self.words.len());
        self.words.get(at..).unwrap_or_default()
    }
}
