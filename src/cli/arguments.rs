//! What is said about a command line that makes no sense, in the words of every other error: what, and what to do. Owns the
//! translation; refuses to parse.

use super::error::CliError;
use super::help;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// Whether this is no refusal: somebody asked for help or for the version, or named no command.
pub(super) fn is_help(refused: &clap::Error) -> bool {
    matches!(
        refused.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The parser's words on these arguments as an error of ours.
pub(super) fn refusal(refused: &clap::Error, arguments: &[OsString]) -> CliError {
    let text = refused.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (what, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let (mut said, mut hints) = (Vec::new(), Vec::new());
    for line in what.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(possible) => hints.push(possible),
            None => said.push(line),
        }
    }
    hints.extend(rest.lines().filter_map(|line| line.trim().strip_prefix("tip: ")));
    let see = format!("see: {} --help", asked(arguments));
    hints.push(&see);
    CliError::usage(said.join(" ").trim()).hint(hints.join("; "))
}

/// The command that was meant, as far as its name was right.
fn asked(arguments: &[OsString]) -> String {
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

    fn told(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        refusal(&help::command().try_get_matches_from(&words).expect_err("refused"), &words).to_string()
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
            assert_eq!(told(words), text);
        }
    }
}
