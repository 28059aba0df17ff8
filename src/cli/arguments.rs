//! What is said about a command line that makes no sense, in the words of every other error: what, and what to do. Owns the
//! translation; refuses to parse.

use super::error::CliError;
use clap::error::ErrorKind;

/// Whether this is no refusal: somebody asked for help or for the version, or named no command.
pub(super) fn is_help(refused: &clap::Error) -> bool {
    matches!(
        refused.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The parser's words as an error of ours.
pub(super) fn refusal(refused: &clap::Error) -> CliError {
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
    let see = format!("see: {} --help", asked(rest));
    hints.push(&see);
    CliError::usage(said.join(" ").trim()).hint(hints.join("; "))
}

/// The command that was meant, from the line that shows how it is used.
fn asked(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).unwrap_or("nanoclaw");
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::help::command;
    use super::*;

    fn told(words: &[&str]) -> String {
        refusal(&command().try_get_matches_from(words).expect_err("refused")).to_string()
    }

    #[test]
    fn a_refusal_is_a_line_and_a_hint() {
        for (words, text) in [
            (
                &["nanoclaw", "ask", "x", "--strictness", "none"][..],
                "nanoclaw: invalid value 'none' for '--strictness <LEVEL>'\nhint: possible values: lenient, standard, \
                strict; see: nanoclaw --help",
            ),
            (
                &["nanoclaw", "user", "add"],
                "nanoclaw: the following required arguments were not provided: <NAME>\nhint: see: nanoclaw user add --help",
            ),
            (
                &["nanoclaw", "aks"],
                "nanoclaw: unrecognized subcommand 'aks'\nhint: a similar subcommand exists: 'ask'; see: nanoclaw --help",
            ),
        ] {
            assert_eq!(told(words), text);
        }
    }
}
