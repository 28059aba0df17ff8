//! Asking for a password: on a terminal twice and without showing it, else one line of stdin. Owns the terminal's echo while
//! it asks; refuses passwords as arguments, which every user of the machine can see.

use super::error::CliError;
use super::terminal::Terminal;
use crate::domain::secret::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Stdin};

/// The longest line that is read, bytes; the server's own bound is less.
const LONGEST_BYTES: u64 = 4 * 1024;

/// A password.
pub(super) fn password(from_stdin: bool, terminal: &Terminal) -> Result<Secret, CliError> {
    let stdin = io::stdin();
    if from_stdin || !stdin.is_terminal() {
        return line(&stdin).map(Secret::from);
    }
    let hidden = Hidden::begin(&stdin)?;
    terminal.ask("password: ");
    let first = line(&stdin)?;
    terminal.ask("\nonce more: ");
    let second = line(&stdin)?;
    terminal.ask("\n");
    drop(hidden);
    if first == second {
        Ok(first.into())
    } else {
        Err(CliError::failed("the two passwords are not the same").hint("type it again"))
    }
}

/// A line without its end.
fn line(stdin: &Stdin) -> Result<String, CliError> {
    let mut text = String::new();
    let read = stdin.lock().take(LONGEST_BYTES).read_line(&mut text);
    read.map_err(|error| CliError::failed(format!("cannot read the password: {error}")))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(CliError::failed("no password was given")
            .hint("type one, or send a line: … | nanoclaw user add NAME --password-stdin"));
    }
    Ok(line.to_owned())
}

/// A terminal that shows nothing of what is typed.
struct Hidden<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn begin(stdin: &'a Stdin) -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("cannot hide what is typed: {error}"));
        let before = tcgetattr(stdin).map_err(failed)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin, OptionalActions::Flush, &hidden).map_err(failed)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.stdin, OptionalActions::Flush, &self.before) {
            tracing::debug!(%error, "the terminal does not show what is typed any more");
        }
    }
}
