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
    /// The first lines, counted from 1, of the new pieces.
    pub(super) lines: Vec<u64>,
}

/// Why no edit was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditError {
    /// The text does not contain the old text.
    NotFound,
    /// The text contains it more than once: how often, and the first lines of the matches.
    Ambiguous(usize, Vec<u64>),
    /// Nothing would change.
    Unchanged,
    /// The text would become so many bytes.
    TooLarge(u64),
}

/// A replacement.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextEdit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Whether to replace every match, not exactly one.
    pub(super) all: bool,
    /// The largest size of the result.
    pub(super) max_bytes: u64,
}

/// A text with `\n` for each line end, and the positions of the line ends that were `\r\n`.
pub(super) struct NormalizedText {
    /// The text with `\n`.
    pub(super) text: String,
    /// The positions at which a `\r` was left out.
    skipped_cr: Vec<usize>,
}

impl NormalizedText {
    pub(super) fn of(raw: &str) -> Self {
        let (mut text, mut skipped_cr) = (String::with_capacity(raw.len()), Vec::new());
        for line in raw.split_inclusive('\n') {
            match line.strip_suffix("\r\n") {
                Some(body) => {
                    text.push_str(body);
                    skipped_cr.push(text.len());
                    text.push('\n');
                }
                None => text.push_str(line),
            }
        }
        Self { text, skipped_cr }
    }

    /// Whether most of its lines end with `\r\n`.
    fn is_crlf(&self) -> bool {
        self.skipped_cr.len() * 2 > self.text.matches('\n').count()
    }

    /// The offset in the raw text.
    fn raw(&self, offset: usize) -> usize {
        offset + self.skipped_cr.partition_point(|skipped| *skipped < offset)
    }
}

/// Replaces the only match of the old text, or all matches.
pub(super) fn splice(raw: &str, edit: TextEdit<'_>) -> Result<EditedText, EditError> {
    let document = NormalizedText::of(raw);
    let old = edit.old.replace("\r\n", "\n");
    let new = if document.is_crlf() { to_crlf(edit.new) } else { edit.new.to_owned() };
    let matches: Vec<usize> = document.text.match_indices(&old).map(|(at, _)| at).collect();
    let Some(first) = matches.first().copied() else { return Err(EditError::NotFound) };
    if !edit.all {
        let overlap = overlapping(&document.text, &old, first).filter(|_| matches.len() == 1);
        let matches_found: Vec<usize> = matches.iter().copied().chain(overlap).collect();
        if matches_found.len() > 1 {
            return Err(EditError::Ambiguous(
                matches_found.len(),
                line_numbers(&document.text, &matches_found),
            ));
        }
    }
    let pieces: Vec<Range<usize>> =
        matches.iter().map(|at| whole_lines(&document.text, *at..*at + old.len(), &edit)).collect();
    let ranges: Vec<Range<usize>> =
        pieces.iter().map(|piece| document.raw(piece.start)..document.raw(piece.end)).collect();
    // Checked before it is built: many matches and a long text could exceed the memory.
    let removed: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    let size = (raw.len() - removed) as u64 + (new.len() as u64).saturating_mul(ranges.len() as u64);
    if size > edit.max_bytes {
        return Err(EditError::TooLarge(size));
    }
    let edited = joined(raw, &ranges, &new);
    if edited.text == raw { Err(EditError::Unchanged) } else { Ok(edited) }
}

/// A second match that begins within the first one.
fn overlapping(text: &str, old: &str, first: usize) -> Option<usize> {
    let step = old.chars().next()?.len_utf8();
    let from = first + step;
    let within = text.get(from..)?;
    within.find(old).map(|at| from + at)
}

/// Extends the deletion of whole lines by their line end.
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

/// The line numbers of ascending offsets.
fn line_numbers(text: &str, offsets: &[usize]) -> Vec<u64> {
    let (mut line, mut from, mut lines) = (1_u64, 0, Vec::new());
    for offset in offsets.iter().take(MAX_LINES) {
        line += text.get(from..*offset).map_or(0, |piece| piece.matches('\n').count() as u64);
        from = *offset;
        lines.push(line);
    }
    lines
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}
