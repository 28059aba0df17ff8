//! Turns clap's errors into ours: one line that says what is wrong, one line that says what to do.

use super::error::CliError;
use super::help;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// Whether clap returned a help or version text instead of an error.
pub(super) fn is_help(refused: &clap::Error) -> bool {
    matches!(
        refused.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// clap's error for these arguments as a `CliError`.
pub(super) fn usage_error(refused: &clap::Error, arguments: &[OsString]) -> CliError {
    let text = refused.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (what, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let (mut parts, mut hints) = (Vec::new(), Vec::new());
    for line in what.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(possible) => hints.push(possible),
            None => parts.push(line),
        }
    }
    hints.extend(rest.lines().filter_map(|line| line.trim().strip_prefix("tip: ")));
    let see = format!("see: {} --help", help_command(arguments));
    hints.push(&see);
    CliError::usage(parts.join(" ").trim()).hint(hints.join("; "))
}

/// The command whose help to show: as many names as were right.
fn help_command(arguments: &[OsString]) -> String {
    let mut names = vec!["nanoclaw".to_owned()];
    let mut at = help::command();
    for word in arguments {
        if let Some(below) = at.find_subcommand(word).cloned() {
            names.push(below.get_name().to_owned());
            at = below;
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
    fn a_refusal_is_a_line_and_a_hint() {
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
        ] {
            assert_eq!(message(words), text);
        }
    }
}
