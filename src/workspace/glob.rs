//! Globs over workspace paths.

use crate::ports::FileError;
use globset::{GlobBuilder, GlobMatcher};

/// Maximum length, characters.
const GLOB_CHARS: usize = 1_000;

/// A compiled glob.
pub(super) struct Glob {
    matcher: GlobMatcher,
    depth: Option<usize>,
    has_separator: bool,
}

impl Glob {
    /// Parses a client's glob; one that leads out of the workspace is refused.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        let text = text.strip_prefix("./").unwrap_or(text);
        if text.starts_with('/') || text.split('/').any(|segment| segment == "..") {
            return Err(FileError::Outside(text.chars().take(GLOB_CHARS).collect()));
        }
        let bad = |what: String| FileError::BadPath(format!("the glob {what}"));
        if text.is_empty() || text.chars().count() > GLOB_CHARS {
            return Err(bad(format!("must have 1 to {GLOB_CHARS} characters")));
        }
        let built = GlobBuilder::new(text).literal_separator(true).build();
        let matcher =
            built.map_err(|error| bad(format!("'{text}' is none: {}", error.kind())))?.compile_matcher();
        // Alternatives may contain separators, so the depth is unknown.
        let is_deep = text.contains("**") || text.contains(['{', '[']);
        let depth = (!is_deep).then(|| text.split('/').count());
        Ok(Self { matcher, depth, has_separator: text.contains('/') })
    }

    /// Maximum depth of matches below the start, if there is one.
    pub(super) fn depth(&self) -> Option<usize> {
        self.depth
    }

    /// Whether the glob matches a path below its start.
    pub(super) fn fits(&self, path: &str) -> bool {
        self.matcher.is_match(path)
    }

    /// Whether the glob matches a file; a glob without `/` is compared with names.
    pub(super) fn fits_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.fits(if self.has_separator { path } else { name })
    }
}
