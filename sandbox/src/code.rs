//! The checks on a program's text that need no language: they answer before any process starts.

use crate::level::Language;
use crate::program::Program;
use crate::record::{RunRecord, RunStatus};

/// The longest program.
pub(crate) const MAX_CODE_BYTES: usize = 1024 * 1024;
/// The longest command line: the kernel's `MAX_ARG_STRLEN` (32 pages of 4 KiB), which counts the NUL at its end.
pub(crate) const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// The longest standard input of a command.
pub(crate) const MAX_STDIN_BYTES: usize = 1024 * 1024;

/// The text without the mark that some editors put before it.
pub(crate) fn without_mark(code: &str) -> &str {
    code.strip_prefix('\u{feff}').unwrap_or(code)
}

/// The record of a program whose text cannot be run, if so.
pub(crate) fn refuse(program: &Program) -> Option<RunRecord> {
    let code = without_mark(&program.code);
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
    let mut record = RunRecord::unrun(RunStatus::SyntaxError, program.level, program.language, message);
    record.limit = limit.map(str::to_owned);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

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
