//! Replaces a piece of a text and keeps its line ends. Several matches are an error unless all are to be
//! replaced.

use std::ops::Range;

/// Line numbers in an error.
const MAX_LINES: usize = 50;

/// An edit that was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditedText {
    /// The whole text.
    pub(super) text: String,
    /// How many pieces were replaced.
    pub(super) replacements: usize,
    /// The lines, counted from 1, at which the new pieces stand now; the first of them.
    pub(super) lines: Vec<u64>,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditError {
    /// The old text is nowhere.
    None,
    /// It is there more than once: how often, and at which lines; the first of them.
    Many(usize, Vec<u64>),
    /// Nothing would change.
    Same,
    /// The text would become so many bytes.
    TooLarge(u64),
}

/// What is to be replaced by what.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextEdit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every match, not exactly one.
    pub(super) all: bool,
    /// What the text may become, bytes.
    pub(super) max_bytes: u64,
}

/// A text as it is matched: with `\n` for each line end, and where these were `\r\n`.
pub(super) struct NormalizedText {
    /// The text with `\n`.
    pub(super) plain: String,
    /// Where in it a `\r` was left out.
    left_out: Vec<usize>,
}

impl NormalizedText {
    /// Of a raw text.
    pub(super) fn of(raw: &str) -> Self {
        let (mut plain, mut left_out) = (String::with_capacity(raw.len()), Vec::new());
        for line in raw.split_inclusive('\n') {
            match line.strip_suffix("\r\n") {
                Some(body) => {
                    plain.push_str(body);
                    left_out.push(plain.len());
                    plain.push('\n');
                }
                None => plain.push_str(line),
            }
        }
        Self { plain, left_out }
    }

    /// Whether most of its lines end with `\r\n`.
    fn is_crlf(&self) -> bool {
        self.left_out.len() * 2 > self.plain.matches('\n').count()
    }

    /// The place in the raw text.
    fn raw(&self, place: usize) -> usize {
        place + self.left_out.partition_point(|out| *out < place)
    }
}

/// Replaces the one place where the old text stands, or all of them.
pub(super) fn splice(raw: &str, edit: TextEdit<'_>) -> Result<EditedText, EditError> {
    let document = NormalizedText::of(raw);
    let old = edit.old.replace("\r\n", "\n");
    let new = if document.is_crlf() { to_crlf(edit.new) } else { edit.new.to_owned() };
    let found: Vec<usize> = document.plain.match_indices(&old).map(|(at, _)| at).collect();
    let Some(first) = found.first().copied() else { return Err(EditError::None) };
    if !edit.all {
        let again = overlapping(&document.plain, &old, first).filter(|_| found.len() == 1);
        let all: Vec<usize> = found.iter().copied().chain(again).collect();
        if all.len() > 1 {
            return Err(EditError::Many(all.len(), lines_of(&document.plain, &all)));
        }
    }
    let pieces: Vec<Range<usize>> =
        found.iter().map(|at| whole_lines(&document.plain, *at..*at + old.len(), &edit)).collect();
    let ranges: Vec<Range<usize>> =
        pieces.iter().map(|piece| document.raw(piece.start)..document.raw(piece.end)).collect();
    // Counted before it is made: a small file and a long text can come to more than there is memory for.
    let gone: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    let size = (raw.len() - gone) as u64 + (new.len() as u64).saturating_mul(ranges.len() as u64);
    if size > edit.max_bytes {
        return Err(EditError::TooLarge(size));
    }
    let edited = joined(raw, &ranges, &new);
    if edited.text == raw { Err(EditError::Same) } else { Ok(edited) }
}

/// A second match that begins within the first one.
fn overlapping(text: &str, old: &str, first: usize) -> Option<usize> {
    let step = old.chars().next()?.len_utf8();
    let from = first + step;
    let within = text.get(from..)?;
    within.find(old).map(|at| from + at)
}

/// Where whole lines are deleted, their line end goes with them.
fn whole_lines(text: &str, piece: Range<usize>, edit: &TextEdit<'_>) -> Range<usize> {
    let begins = piece.start == 0 || text.get(..piece.start).is_some_and(|before| before.ends_with('\n'));
    let ends = text.get(piece.end..).is_some_and(|after| after.starts_with('\n'));
    let is_line = edit.new.is_empty() && begins && ends && !edit.old.ends_with('\n');
    if is_line { piece.start..piece.end + 1 } else { piece }
}

fn joined(raw: &str, ranges: &[Range<usize>], new: &str) -> EditedText {
    let (mut text, mut from, mut line, mut counted) = (String::new(), 0, 1_u64, 0);
    let mut lines = Vec::new();
    for range in ranges {
        text.push_str(raw.get(from..range.start).unwrap_or_default());
        if lines.len() < MAX_LINES {
            line += text.get(counted..).map_or(0, |piece| piece.matches('\n').count() as u64);
            counted = text.len();
            lines.push(line);
        }
        text.push_str(new);
        from = range.end;
    }
    text.push_str(raw.get(from..).unwrap_or_default());
    lines.dedup();
    EditedText { text, replacements: ranges.len(), lines }
}

/// The lines of places that rise.
fn lines_of(text: &str, places: &[usize]) -> Vec<u64> {
    let (mut line, mut from, mut lines) = (1_u64, 0, Vec::new());
    for place in places.iter().take(MAX_LINES) {
        line += text.get(from..*place).map_or(0, |piece| piece.matches('\n').count() as u64);
        from = *place;
        lines.push(line);
    }
    lines
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}
