//! Where commands write: data to stdout, talk to stderr, colour only on a terminal. Owns both streams; refuses to mix them.

use anstyle::{AnsiColor, Style};
use std::io::{self, IsTerminal, Stderr, Stdout, Write};

/// The two streams of a command.
#[derive(Debug)]
pub(super) struct Terminal {
    out: Stdout,
    err: Stderr,
    colour_out: bool,
    colour_err: bool,
}

impl Terminal {
    /// Looks at the process's streams; `no_colour` is what `NO_COLOR` says.
    pub(super) fn new(no_colour: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (colour_out, colour_err) = (!no_colour && out.is_terminal(), !no_colour && err.is_terminal());
        Self { out, err, colour_out, colour_err }
    }

    /// Another hand on the same streams, for another thread.
    pub(super) fn twin(&self) -> Self {
        Self { out: io::stdout(), err: io::stderr(), ..*self }
    }

    /// Whether talk goes to a terminal that somebody watches.
    pub(super) fn is_watched(&self) -> bool {
        self.err.is_terminal()
    }

    /// Data as it is, without a newline, at once.
    pub(super) fn data(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A line of data.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// A line of data in a style, where stdout shows styles.
    pub(super) fn styled(&self, style: Style, text: &str) -> io::Result<()> {
        if self.colour_out { self.data(&format!("{style}{text}{style:#}")) } else { self.data(text) }
    }

    /// Lines on what went wrong.
    pub(super) fn complain(&self, text: &str) {
        let line = if self.colour_err { format!("{ERROR}{text}{ERROR:#}\n") } else { format!("{text}\n") };
        drop(self.err.lock().write_all(line.as_bytes()));
    }

    /// How far something is: one line that is written over, on a terminal alone.
    pub(super) fn progress(&self, text: &str) {
        if self.err.is_terminal() {
            drop(self.err.lock().write_all(format!("\r{text}\x1b[K").as_bytes()));
        }
    }

    /// A question, behind which the answer is typed.
    pub(super) fn ask(&self, text: &str) {
        drop(self.err.lock().write_all(text.as_bytes()));
    }

    /// A line of talk. Talk that cannot be heard is no failure.
    pub(super) fn say(&self, text: &str) {
        let dim = Style::new().dimmed();
        let line = if self.colour_err { format!("{dim}{text}{dim:#}\n") } else { format!("{text}\n") };
        drop(self.err.lock().write_all(line.as_bytes()));
    }
}

/// The model's reasoning.
pub(super) const THINKING: Style = Style::new().dimmed();
/// A tool and its result.
pub(super) const TOOL: Style = AnsiColor::Cyan.on_default();
/// What went wrong.
pub(super) const ERROR: Style = AnsiColor::Red.on_default();
