//! Globs over paths of a project. Owns what one may look like; refuses those that mean something outside.

use crate::ports::FileError;
use globset::{GlobBuilder, GlobMatcher};

/// The longest glob, characters.
const GLOB_CHARS: usize = 1_000;

/// A glob, ready to be asked.
pub(super) struct Glob {
    matcher: GlobMatcher,
    depth: Option<usize>,
    has_separator: bool,
}

impl Glob {
    /// Reads a client's glob.
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
        // Alternatives may have separators in them: then the depth is anybody's guess.
        let is_deep = text.contains("**") || text.contains(['{', '[']);
        let depth = (!is_deep).then(|| text.split('/').count());
        Ok(Self { matcher, depth, has_separator: text.contains('/') })
    }

    /// How deep below its start it can be true, if there is an end.
    pub(super) fn depth(&self) -> Option<usize> {
        self.depth
    }

    /// Whether it is true of a path below its start.
    pub(super) fn fits(&self, path: &str) -> bool {
        self.matcher.is_match(path)
    }

    /// The same, where a glob without `/` is asked of names alone.
    pub(super) fn fits_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.fits(if self.has_separator { path } else { name })
    }
}
