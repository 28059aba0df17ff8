//! Recognises command lines that only remove files, which may run in a directory that is too full. A wrong
//! guess does no harm: a program that makes such a directory larger is ended.

use super::command::{ShellCommand, ShellWord};
use super::split::split;
use super::wrapper::name;

/// Commands that remove files or help to choose them.
const CLEANUP: [&str; 15] = [
    "rm", "rmdir", "unlink", "find", "ls", "du", "df", "cd", "pwd", "echo", "true", "sort", "head", "tail",
    "wc",
];

/// Whether the line removes files and does nothing else.
pub(super) fn only_removes(source: &str) -> bool {
    let commands = split(source);
    !commands.is_empty() && commands.iter().all(is_cleanup)
}

fn is_cleanup(command: &ShellCommand) -> bool {
    let stores_nothing = |target: &ShellWord| {
        target.fixed == "/dev/null"
            || !target.fixed.is_empty() && target.fixed.bytes().all(|b| b.is_ascii_digit())
    };
    command.command().first().is_some_and(|word| CLEANUP.contains(&name(word).as_str()))
        && command.nested.is_empty()
        && command.functions.is_empty()
        && command.writes.iter().all(stores_nothing)
}

#[cfg(test)]
mod tests {
    use super::only_removes;

    #[test]
    fn a_line_that_only_removes_is_recognised() {
        for line in [
            "rm -rf build",
            "cd target && rm -r debug 2>/dev/null || true; ls -la",
            "du -a . 2>&1 | sort -n | tail -20",
            "find . -name '*.o' -delete",
            "/bin/rm f",
        ] {
            assert!(only_removes(line), "{line}");
        }
        for line in [
            "",
            "make",
            "rm f; make",
            "echo x > f",
            "rm $(cat list)",
            "(rm f; make)",
            "xargs rm < list",
            "rm() { make; }; rm f",
        ] {
            assert!(!only_removes(line), "{line}");
        }
    }
}
