//! Reads a password: twice and hidden on a terminal, else one line of stdin. Never from an argument: all
//! users of the machine can see those.

use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::domain::secret::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Stdin};

/// Longest line that is read, bytes; the server has a lower limit.
const MAX_LINE_BYTES: u64 = 4 * 1024;

pub(crate) fn password(from_stdin: bool, terminal: &Terminal) -> Result<Secret, CliError> {
    let stdin = io::stdin();
    if from_stdin || !stdin.is_terminal() {
        return line(&stdin).map(Secret::from);
    }
    let echo_off = EchoOff::start(&stdin)?;
    terminal.prompt("password: ");
    let first = line(&stdin)?;
    terminal.prompt("\nagain: ");
    let second = line(&stdin)?;
    terminal.prompt("\n");
    drop(echo_off);
    if first == second {
        Ok(first.into())
    } else {
        Err(CliError::failed("the two passwords are not the same").hint("type it again"))
    }
}

/// A line without its end.
fn line(stdin: &Stdin) -> Result<String, CliError> {
    let mut text = String::new();
    let read = stdin.lock().take(MAX_LINE_BYTES).read_line(&mut text);
    read.map_err(|error| CliError::failed(format!("cannot read the password: {error}")))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(CliError::failed("no password was given")
            .hint("type one, or send a line: … | nanoclaw user add NAME --password-stdin"));
    }
    Ok(line.to_owned())
}

/// Switches the echo of the terminal off until it is dropped.
struct EchoOff<'a> {
    stdin: &'a Stdin,
    saved: Termios,
}

impl<'a> EchoOff<'a> {
    fn start(stdin: &'a Stdin) -> Result<Self, CliError> {
        let failed = |error| CliError::failed(format!("cannot hide what is typed: {error}"));
        let saved = tcgetattr(stdin).map_err(failed)?;
        let mut echo_off = saved.clone();
        echo_off.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin, OptionalActions::Flush, &echo_off).map_err(failed)?;
        Ok(Self { stdin, saved })
    }
}

impl Drop for EchoOff<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.stdin, OptionalActions::Flush, &self.saved) {
            tracing::debug!(%error, "cannot switch the echo of the terminal on again");
        }
    }
}
