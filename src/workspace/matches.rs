//! Searches one file, with limits on what is read and returned. Binary files have no matches.

use crate::ports::Clock;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use std::fs::File;
use std::io::{self, Read};

/// Maximum bytes that are read of one file.
const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum line length, bytes; the search of a file ends at a longer line.
const LINE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum characters of a returned line.
const LINE_CHARS: usize = 500;
/// Maximum characters of all returned lines of a file.
const SHOWN_CHARS: usize = 10_000;
/// Overhead of each line in that sum, so that short lines are limited, too.
const CHARS_OF_A_LINE: usize = 10;

/// Deadline of a search.
#[derive(Clone, Copy)]
pub(super) struct Deadline<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) at_ms: u64,
}

impl Deadline<'_> {
    pub(super) fn is_over(self) -> bool {
        self.clock.monotonic_ms() >= self.at_ms
    }
}

/// A line searcher; a NUL byte marks a file as binary.
pub(super) fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .bom_sniffing(false)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(LINE_BYTES))
        .build()
}

/// Matches in one file.
#[derive(Default)]
pub(super) struct FileMatches {
    lines: Vec<(u64, String)>,
    shown_chars: usize,
    is_full: bool,
    is_binary: bool,
}

impl FileMatches {
    /// Searches a file. Returns whether the complete file was searched.
    pub(super) fn gather(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        (file, deadline): (File, Deadline<'_>),
    ) -> bool {
        let mut reader = LimitedReader { file, left_bytes: FILE_BYTES, deadline, is_cut: false };
        let outcome = searcher.search_reader(matcher, &mut reader, &mut *self);
        self.is_binary || (outcome.is_ok() && !reader.is_cut && !self.is_full)
    }

    /// The matching lines; none for a binary file.
    pub(super) fn into_lines(self) -> Vec<(u64, String)> {
        if self.is_binary { Vec::new() } else { self.lines }
    }
}

impl Sink for FileMatches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let shown: String = line.trim_end_matches(['\n', '\r']).chars().take(LINE_CHARS).collect();
        self.shown_chars += shown.chars().count() + CHARS_OF_A_LINE;
        self.is_full = self.shown_chars > SHOWN_CHARS;
        if !self.is_full {
            self.lines.push((found.line_number().unwrap_or(0), shown));
        }
        Ok(!self.is_full)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Reads a file up to a number of bytes and a deadline.
struct LimitedReader<'a> {
    file: File,
    left_bytes: u64,
    deadline: Deadline<'a>,
    is_cut: bool,
}

impl Read for LimitedReader<'_> {
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
