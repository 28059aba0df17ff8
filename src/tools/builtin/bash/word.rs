//! One word of a command line, as bash would read it. Owns what is left of it when the quotes are gone and what is known
//! of its expansions; refuses to expand anything.

/// A stretch of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Not quoted: patterns and a leading tilde are alive in it.
    Plain(String),
    /// Quoted or escaped: means itself.
    Literal(String),
    /// `$NAME` or `${NAME…}`.
    Variable(String),
    /// A substitution or arithmetic: what comes out is not known.
    Unknown,
}

/// A word in its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// In order.
    pub(super) pieces: Vec<Piece>,
}

impl Word {
    /// The word without its quotes; variables stand there by name, as an inner shell would read them.
    pub(super) fn text(&self) -> String {
        render(&self.pieces)
    }

    /// The word without its quotes and without what is expanded in it.
    pub(super) fn written(&self) -> String {
        let is_written = |piece: &&Piece| matches!(piece, Piece::Plain(_) | Piece::Literal(_));
        render(&self.pieces.iter().filter(is_written).cloned().collect::<Vec<_>>())
    }

    /// The word if it is written without any quote or expansion: only such words can be keywords.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether some of it is quoted: a here-document with such an end expands nothing.
    pub(super) fn is_quoted(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Literal(_)))
    }

    /// `NAME=value`, `NAME+=value` or `NAME[1]=value` with the name outside quotes.
    pub(super) fn is_assignment(&self) -> bool {
        let Some(Piece::Plain(text)) = self.pieces.first() else { return false };
        let Some((name, _)) = text.split_once('=') else { return false };
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name_char)
    }

    /// Adds a character, to the last piece if that is of the same kind.
    pub(super) fn push(&mut self, c: char, is_quoted: bool) {
        match self.pieces.last_mut() {
            Some(Piece::Plain(text)) if !is_quoted => text.push(c),
            Some(Piece::Literal(text)) if is_quoted => text.push(c),
            _ if is_quoted => self.pieces.push(Piece::Literal(c.to_string())),
            _ => self.pieces.push(Piece::Plain(c.to_string())),
        }
    }
}

/// The text of pieces.
pub(super) fn render(pieces: &[Piece]) -> String {
    pieces.iter().fold(String::new(), |text, piece| match piece {
        Piece::Plain(part) | Piece::Literal(part) => text + part,
        Piece::Variable(name) if name.chars().all(is_name_char) => text + "${" + name + "}",
        Piece::Variable(name) => text + "$" + name,
        Piece::Unknown => text + "$()",
    })
}

/// Whether variables may have it in their names.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
