//! A program to run, and the checks on it that start no process.

use std::path::PathBuf;
use std::sync::Arc;

use crate::level::{Language, Level};
use crate::record::{RunRecord, RunStatus};

/// A program and how to run it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its language.
    pub language: Language,
    /// Its level.
    pub level: Level,
    /// Its source: not empty, without NUL bytes, at most 1 MiB. Otherwise the record's status is
    /// `syntax_error`.
    pub code: String,
    /// The most lenient level that the caller may choose instead, for the advice in refusals. `None`: the
    /// operator's.
    pub max_level: Option<Level>,
    /// Whether modules and builtins are checked first. Without the check, only the kernel policy holds the
    /// program.
    pub language_check: bool,
    /// A wall clock limit other than the level's, up to `SandboxOptions::max_timeout_ms`.
    pub timeout_ms: Option<u64>,
    /// A directory that a lenient program or a command may read and write. `None`: a private one, removed
    /// afterwards.
    pub workdir: Option<PathBuf>,
    /// What may be stored in `workdir`; `None`: the caller counts itself.
    pub workdir_limit: Option<WorkdirLimit>,
    /// Where below it a command starts: a relative path that stays inside.
    pub subdirectory: Option<PathBuf>,
    /// The standard input of a command, at most 1 MiB. `None`: `/dev/null`, as for all other programs.
    pub stdin: Option<Vec<u8>>,
    /// Additional environment variables of a command. The sandbox sets a few of its own.
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// A program with the level's defaults.
    pub fn new(language: Language, level: Level, code: impl Into<String>) -> Self {
        Self {
            language,
            level,
            code: code.into(),
            max_level: None,
            language_check: true,
            timeout_ms: None,
            workdir: None,
            workdir_limit: None,
            subdirectory: None,
            stdin: None,
            environment: Vec::new(),
        }
    }
}

/// Name of an exceeded limit, and a message.
pub(crate) type ExceededLimit = (&'static str, String);

/// Bounds what a run stores in a directory of the caller. The caller counts with it what several runs, at
/// once or one after the other, store in several directories.
#[derive(Clone)]
pub struct WorkdirLimit {
    max_bytes: u64,
    max_entries: u64,
    check: Arc<dyn Fn(u64, u64) -> Option<ExceededLimit> + Send + Sync>,
}

impl WorkdirLimit {
    /// `check` gets the bytes and entries of the directory now and then, and at the end of a run. If it
    /// returns the name of a limit and a message, the run ends. The directory is counted more often when it
    /// comes near to `max_bytes` or `max_entries`; counting may stop above `max_entries`.
    pub fn new(
        max_bytes: u64,
        max_entries: u64,
        check: impl Fn(u64, u64) -> Option<(&'static str, String)> + Send + Sync + 'static,
    ) -> Self {
        Self { max_bytes, max_entries, check: Arc::new(check) }
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn max_entries(&self) -> u64 {
        self.max_entries
    }

    pub(crate) fn check(&self, bytes: u64, entries: u64) -> Option<ExceededLimit> {
        (self.check)(bytes, entries)
    }
}

impl std::fmt::Debug for WorkdirLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkdirLimit")
            .field("max_bytes", &self.max_bytes)
            .field("max_entries", &self.max_entries)
            .finish_non_exhaustive()
    }
}

/// The longest program.
const MAX_CODE_BYTES: usize = 1024 * 1024;
/// The longest command line: the kernel's `MAX_ARG_STRLEN` (32 pages of 4 KiB), which includes the NUL at its
/// end.
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// The longest standard input of a command.
const MAX_STDIN_BYTES: usize = 1024 * 1024;

/// The text without the byte order mark that some editors add.
pub(crate) fn without_byte_order_mark(code: &str) -> &str {
    code.strip_prefix('\u{feff}').unwrap_or(code)
}

/// The record of a program whose text cannot run; `None` if it can.
pub(crate) fn refuse(program: &Program) -> Option<RunRecord> {
    let code = without_byte_order_mark(&program.code);
    let (limit, message) = if code.trim().is_empty() {
        (None, "the program is empty".to_owned())
    } else if let Some(line) = code.lines().position(|line| line.contains('\0')) {
        (None, format!("line {}: the program holds a NUL byte", line + 1))
    } else if program.language == Language::Bash && code.len() > MAX_COMMAND_BYTES {
        let length = code.len();
        let message = format!(
            "the command line has {length} bytes; the limit is {MAX_COMMAND_BYTES}: write long input to a file first, \
             and let the command read that"
        );
        (Some("code_bytes"), message)
    } else if code.len() > MAX_CODE_BYTES {
        let length = code.len();
        (Some("code_bytes"), format!("the program has {length} bytes; the limit is {MAX_CODE_BYTES}"))
    } else {
        return None;
    };
    let mut record = RunRecord::not_run(RunStatus::SyntaxError, program.level, program.language, message);
    record.limit = limit.map(str::to_owned);
    Some(record)
}

/// Whether a program may have its standard input.
pub(crate) fn check_stdin(program: &Program) -> Result<(), String> {
    let Some(stdin) = &program.stdin else { return Ok(()) };
    if program.language != Language::Bash {
        return Err(format!(
            "{} has no standard input: only commands (bash at level shell) do; put the data into the program's text",
            program.language
        ));
    }
    let (length, max) = (stdin.len(), MAX_STDIN_BYTES);
    if length > max {
        return Err(format!(
            "the standard input has {length} bytes; the limit is {max}: write long input to a file first, and let the \
             command read that"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_cannot_run_is_refused_with_a_reason() {
        let refused = |code: &str| refuse(&Program::new(Language::Python, Level::Strict, code));
        assert!(refused("print(1)").is_none());
        assert!(refused(" \n\t").unwrap().error.unwrap().contains("empty"));
        assert!(refused("a\nb\0").unwrap().error.unwrap().contains("line 2"));
        let long = refused(&"#".repeat(MAX_CODE_BYTES + 1)).unwrap();
        assert_eq!(long.limit.as_deref(), Some("code_bytes"));
        assert_eq!(long.status, RunStatus::SyntaxError);
        let command = |length| refuse(&Program::new(Language::Bash, Level::Shell, "#".repeat(length)));
        assert!(command(MAX_COMMAND_BYTES).is_none());
        let long = command(MAX_COMMAND_BYTES + 1).unwrap();
        assert!(long.error.unwrap().contains("command line"));
    }
}
