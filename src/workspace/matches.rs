//! The matches of a search in one file. Owns how much of a file is read and told; refuses files that are no text.

use super::search::Deadline;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use std::fs::File;
use std::io::{self, Read};

/// The most that is read of one file, bytes.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The longest line that is searched, bytes; a file with a longer one is given up there.
const LINE_BYTES: usize = 4 * 1024 * 1024;
/// The most that is told of a line, characters.
const LINE_CHARS: usize = 500;
/// The most that is told of a file, characters of its lines.
const TOLD_CHARS: usize = 10_000;
/// What a line counts beside its characters: very short ones are bounded too.
const CHARS_OF_A_LINE: usize = 10;

/// A searcher for lines of text: a file with a NUL is none.
pub(super) fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .bom_sniffing(false)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES))
        .build()
}

/// What was found in one file.
#[derive(Default)]
pub(super) struct Matches {
    lines: Vec<(u64, String)>,
    told_chars: usize,
    is_full: bool,
    is_binary: bool,
}

impl Matches {
    /// Searches a file; says whether it was searched to its end.
    pub(super) fn gather(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        (file, deadline): (File, Deadline<'_>),
    ) -> bool {
        let mut reader = Bounded { file, left_bytes: FILE_BYTES, deadline, is_cut: false };
        let outcome = searcher.search_reader(matcher, &mut reader, &mut *self);
        self.is_binary || (outcome.is_ok() && !reader.is_cut && !self.is_full)
    }

    /// Their lines; none of a file that turned out to be no text.
    pub(super) fn into_lines(self) -> Vec<(u64, String)> {
        if self.is_binary { Vec::new() } else { self.lines }
    }
}

impl Sink for Matches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let told: String = line.trim_end_matches(['\n', '\r']).chars().take(LINE_CHARS).collect();
        self.told_chars += told.chars().count() + CHARS_OF_A_LINE;
        self.is_full = self.told_chars > TOLD_CHARS;
        if !self.is_full {
            self.lines.push((found.line_number().unwrap_or(0), told));
        }
        Ok(!self.is_full)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A file up to a number of bytes and a deadline.
struct Bounded<'a> {
    file: File,
    left_bytes: u64,
    deadline: Deadline<'a>,
    is_cut: bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_cut = self.left_bytes == 0 || self.deadline.is_over();
        if self.is_cut {
            return Ok(0);
        }
        let read = (&self.file).take(self.left_bytes).read(buffer)?;
        self.left_bytes = self.left_bytes.saturating_sub(read as u64);
        Ok(read)
    }
}
