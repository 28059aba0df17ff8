//! One thing to run, as the caller describes it.

use std::path::PathBuf;

use crate::level::{Language, Level};

/// A program and the terms under which it runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is written in.
    pub language: Language,
    /// How much it may do.
    pub level: Level,
    /// Its source: not empty, no NUL byte, at most 1 MiB — else the record says `syntax_error`.
    pub code: String,
    /// Whether modules and builtins are checked first. Off, the kernel alone holds the program.
    pub language_check: bool,
    /// A wall clock other than the level's, up to `SandboxOptions::max_timeout_ms`.
    pub timeout_ms: Option<u64>,
    /// A directory that a lenient program may read and write. None: a private one, removed afterwards.
    pub workdir: Option<PathBuf>,
    /// Where below it a shell command starts: a relative path that leads nowhere else.
    pub subdirectory: Option<PathBuf>,
    /// What a shell command reads from its standard input, at most 1 MiB. None: it is `/dev/null`, as for all others.
    pub stdin: Option<Vec<u8>>,
    /// What a shell command finds in its environment beside the sandbox's own few variables. Nothing else ever does.
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// A program with the level's own terms.
    pub fn new(language: Language, level: Level, code: impl Into<String>) -> Self {
        Self {
            language,
            level,
            code: code.into(),
            language_check: true,
            timeout_ms: None,
            workdir: None,
            subdirectory: None,
            stdin: None,
            environment: Vec::new(),
        }
    }
}
