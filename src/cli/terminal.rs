//! Where commands write: data to stdout, talk to stderr, colour only on a terminal. Owns both streams; refuses to mix them.

use anstyle::{AnsiColor, Style};
use std::io::{self, IsTerminal, Write};

/// The two streams of a command.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    colour_out: bool,
    colour_err: bool,
}

impl Terminal {
    /// Looks at the process's streams; `no_colour` is what `NO_COLOR` says.
    pub fn new(no_colour: bool) -> Self {
        Self {
            colour_out: !no_colour && io::stdout().is_terminal(),
            colour_err: !no_colour && io::stderr().is_terminal(),
        }
    }

    /// Data as it is, without a newline, at once.
    pub fn data(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A line of data.
    pub fn line(&self, text: &str) -> io::Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// A line of data in a style, where stdout shows styles.
    pub fn styled(&self, style: Style, text: &str) -> io::Result<()> {
        if self.colour_out { self.data(&format!("{style}{text}{style:#}")) } else { self.data(text) }
    }

    /// A line of talk. Talk that cannot be heard is no failure.
    pub fn say(&self, text: &str) {
        let dim = Style::new().dimmed();
        let line = if self.colour_err { format!("{dim}{text}{dim:#}\n") } else { format!("{text}\n") };
        drop(io::stderr().lock().write_all(line.as_bytes()));
    }
}

/// The model's reasoning.
pub const THINKING: Style = Style::new().dimmed();
/// A tool and its result.
pub const TOOL: Style = AnsiColor::Cyan.on_default();
/// What went wrong.
pub const ERROR: Style = AnsiColor::Red.on_default();
