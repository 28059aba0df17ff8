//! Converts clap's errors: one line names the mistake, one line gives advice.

use super::error::CliError;
use super::help;
use crate::domain::nearest::hint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Whether clap returned a help or version text instead of an error.
pub(super) fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// clap's error for these arguments as a `CliError`.
pub(super) fn usage_error(error: &clap::Error, arguments: &[OsString]) -> CliError {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let (mut parts, mut hints) = (Vec::new(), Vec::new());
    for line in message.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(values) => hints.push(values),
            None => parts.push(line),
        }
    }
    hints.extend(rest.lines().filter_map(|line| line.trim().strip_prefix("tip: ")));
    let meant = unknown_command(error).filter(|_| hints.is_empty());
    hints.extend(meant.as_deref());
    let help_hint = format!("see: {} --help", help_command(arguments));
    hints.push(&help_hint);
    CliError::usage(parts.join(" ").trim()).hint(hints.join("; "))
}

/// The command that is meant by a name of another system.
fn unknown_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let root = help::command();
    let meant = hint(word, root.get_subcommands().map(clap::Command::get_name));
    meant.strip_prefix("; ").map(str::to_owned)
}

/// The command whose help to show: as many names as were right.
fn help_command(arguments: &[OsString]) -> String {
    let mut names = vec!["nanoclaw".to_owned()];
    let mut command = help::command();
    for argument in arguments {
        if let Some(subcommand) = command.find_subcommand(argument).cloned() {
            names.push(subcommand.get_name().to_owned());
            command = subcommand;
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        usage_error(&help::command().try_get_matches_from(&words).expect_err("refused"), &words).to_string()
    }

    #[test]
    fn a_usage_error_is_one_line_and_a_hint() {
        for (words, text) in [
            (
                &["nanoclaw", "ask", "x", "--strictness", "none"][..],
                "nanoclaw: invalid value 'none' for '--strictness <LEVEL>'\nhint: possible values: lenient, standard, \
                strict; see: nanoclaw ask --help",
            ),
            (
                &["nanoclaw", "user", "add"],
                "nanoclaw: the following required arguments were not provided: <NAME>\nhint: see: nanoclaw user add --help",
            ),
            (
                &["nanoclaw", "batchs"],
                "nanoclaw: unrecognized subcommand 'batchs'\nhint: a similar subcommand exists: 'batch'; see: nanoclaw --help",
            ),
            (
                &["nanoclaw", "logs"],
                "nanoclaw: unrecognized subcommand 'logs'\nhint: did you mean 'tail'?; see: nanoclaw --help",
            ),
        ] {
            assert_eq!(message(words), text);
        }
    }
}
