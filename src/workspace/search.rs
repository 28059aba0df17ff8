//! Text search with ripgrep's crates. Their walk goes by paths, which commands of jobs may change meanwhile,
//! so each file is opened again beneath the workspace.
//!
//! Skips what lists skip, dot names included. `.gitignore` has no effect.

use super::beneath::{kind, open_directory, open_file, stat_at};
use super::errors::file_error;
use super::glob::Glob;
use super::matches::{self, Deadline, FileMatches};
use super::paths::WorkspacePath;
use super::walk::{WalkOptions, names_below};
use crate::ports::{Clock, FileError, SearchHit, SearchQuery, SearchResults};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::Searcher;
use rustix::fs::FileType;
use std::os::fd::OwnedFd;

/// Maximum length of a query, characters.
const QUERY_CHARS: usize = 1_000;
/// Maximum size of a compiled pattern, bytes.
const PATTERN_BYTES: usize = 4 * 1024 * 1024;

/// Limits of one search.
#[derive(Clone, Copy)]
pub(super) struct SearchLimits {
    /// Maximum files to read.
    pub(super) files: u64,
    /// Timeout, milliseconds.
    pub(super) time_ms: u64,
}

/// Searches a workspace or a directory of it.
pub(super) fn search(
    workspace: &OwnedFd,
    query: &SearchQuery,
    bounds: SearchLimits,
    clock: &dyn Clock,
) -> Result<SearchResults, FileError> {
    let start = WorkspacePath::parse(&query.path)?;
    let deadline = Deadline { clock, at_ms: clock.monotonic_ms().saturating_add(bounds.time_ms) };
    let mut search = TextSearch {
        workspace,
        matcher: matcher(query)?,
        glob: query.glob.as_deref().map(Glob::parse).transpose()?,
        with_hidden: query.with_hidden,
        hides_secrets: query.hides_secrets,
        searcher: matches::searcher(),
        deadline,
        files_left: bounds.files,
        max_hits: query.max_results,
        found: SearchResults::default(),
    };
    if start_type(workspace, &start)? == FileType::Directory {
        search.walk(&start)?;
    } else {
        open_file(workspace, start.target())?; // refuse other file types, do not skip them
        search.search_file(start.as_str().to_owned());
    }
    search.found.hits.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(search.found)
}

/// File type of the start, to choose between file and directory search; both check again.
fn start_type(workspace: &OwnedFd, start: &WorkspacePath) -> Result<FileType, FileError> {
    let Ok((parent, name)) = start.entry("looked at") else { return Ok(FileType::Directory) };
    let fail = |error| file_error(error, start.target());
    let parent = open_directory(workspace, parent).map_err(fail)?;
    stat_at(&parent, name).map(|stat| kind(&stat)).map_err(fail)
}

fn matcher(query: &SearchQuery) -> Result<RegexMatcher, FileError> {
    let bad = |what: &str| FileError::BadPath(format!("the text to search for {what}"));
    if query.query.is_empty() || query.query.contains(['\n', '\r', '\0']) {
        return Err(bad("must be one line, and not empty"));
    }
    if query.query.chars().count() > QUERY_CHARS {
        return Err(bad(&format!("may have {QUERY_CHARS} characters")));
    }
    RegexMatcherBuilder::new()
        .fixed_strings(!query.is_pattern)
        .case_insensitive(!query.case_sensitive)
        .size_limit(PATTERN_BYTES)
        .line_terminator(Some(b'\n'))
        .build(&query.query)
        .map_err(|error| {
            let why = format!("is no pattern that can be searched for: {error}");
            bad(if query.is_pattern { &why } else { "is too long" })
        })
}

struct TextSearch<'a> {
    workspace: &'a OwnedFd,
    matcher: RegexMatcher,
    glob: Option<Glob>,
    with_hidden: bool,
    hides_secrets: bool,
    searcher: Searcher,
    deadline: Deadline<'a>,
    files_left: u64,
    max_hits: usize,
    found: SearchResults,
}

impl TextSearch<'_> {
    fn walk(&mut self, start: &WorkspacePath) -> Result<(), FileError> {
        let directory = open_directory(self.workspace, start.target())
            .map_err(|error| file_error(error, start.target()))?;
        let options =
            WalkOptions { with_hidden: self.with_hidden, hides_secrets: self.hides_secrets, depth: None };
        for (name, is_directory) in names_below(&directory, options) {
            if self.is_exhausted() {
                break;
            }
            if is_directory || self.glob.as_ref().is_some_and(|glob| !glob.fits_file(&name)) {
                continue;
            }
            // Skip paths that a client could not request.
            let Ok(path) = WorkspacePath::parse(&start.child(&name)) else { continue };
            self.search_file(path.as_str().to_owned());
        }
        Ok(())
    }

    fn is_exhausted(&mut self) -> bool {
        let is_full = self.files_left == 0 || self.found.hits.len() >= self.max_hits;
        let is_exhausted = is_full || self.deadline.is_over();
        self.found.is_cut |= is_exhausted;
        is_exhausted
    }

    fn search_file(&mut self, path: String) {
        let Ok((file, _)) = open_file(self.workspace, &path) else { return };
        self.files_left = self.files_left.saturating_sub(1);
        let mut matches = FileMatches::default();
        let is_complete = matches.gather(&mut self.searcher, &self.matcher, (file, self.deadline));
        self.found.is_cut |= !is_complete;
        let lines = matches.into_lines();
        if !lines.is_empty() {
            self.found.hits.push(SearchHit { path, matches: lines });
        }
    }
}
