//! Where commands write: data to stdout, talk to stderr, colour only on a terminal. Owns both streams, and lets nothing
//! through to a terminal that the terminal would obey; refuses to mix data and talk.

use super::visible::visible;
use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
#[cfg(test)]
use std::sync::{Arc, Mutex};

/// Columns of what is no terminal.
const PLAIN_COLUMNS: usize = 100;

/// The narrowest terminal that lines are fitted to, and the widest line that is read with pleasure.
const COLUMNS: (usize, usize) = (40, 160);

/// The two streams of a command.
#[derive(Debug, Clone)]
pub(super) struct Terminal {
    out: Side,
    err: Side,
}

/// When styles are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// On a terminal.
    Auto,
    /// Wherever it goes.
    Always,
    /// Nowhere.
    Never,
}

/// One stream, and what is known of who reads it.
#[derive(Debug, Clone)]
struct Side {
    stream: Stream,
    is_terminal: bool,
    has_colour: bool,
}

#[derive(Debug, Clone)]
enum Stream {
    Out,
    Err,
    #[cfg(test)]
    Kept(Arc<Mutex<Vec<u8>>>),
}

impl Terminal {
    /// Looks at the process's streams.
    pub(super) fn new(colour: Colour) -> Self {
        let side = |stream, is_terminal| {
            let has_colour = colour == Colour::Always || (colour == Colour::Auto && is_terminal);
            Side { stream, is_terminal, has_colour }
        };
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { out: side(Stream::Out, out), err: side(Stream::Err, err) }
    }

    /// Another hand on the same streams, for another thread.
    pub(super) fn twin(&self) -> Self {
        self.clone()
    }

    /// Whether talk goes to a terminal that somebody watches.
    pub(super) fn is_watched(&self) -> bool {
        self.err.is_terminal
    }

    /// Whether data goes to a terminal, where what was written cannot be taken back and need not be.
    pub(super) fn shows_data(&self) -> bool {
        self.out.is_terminal
    }

    /// How wide a line of talk may be.
    pub(super) fn columns(&self) -> usize {
        if !self.err.is_terminal {
            return PLAIN_COLUMNS;
        }
        let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        if width == 0 { PLAIN_COLUMNS } else { width.clamp(COLUMNS.0, COLUMNS.1) }
    }

    /// Data without a newline, at once: byte for byte into a file or a pipe, harmless on a terminal.
    pub(super) fn data(&self, text: &str) -> io::Result<()> {
        let shown = if self.out.is_terminal { visible(text) } else { Cow::Borrowed(text) };
        self.out.write(shown.as_bytes())
    }

    /// A line of data.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// A program's own words on stderr, as they are.
    pub(super) fn echo(&self, text: &str) -> io::Result<()> {
        let shown = if self.err.is_terminal { visible(text) } else { Cow::Borrowed(text) };
        self.err.write(shown.as_bytes())
    }

    /// Lines on what went wrong.
    pub(super) fn complain(&self, text: &str) {
        self.tell(ERROR, &format!("{text}\n"));
    }

    /// A question, behind which the answer is typed.
    pub(super) fn ask(&self, text: &str) {
        self.tell(Style::new(), text);
    }

    /// A line of talk.
    pub(super) fn say(&self, text: &str) {
        self.tell(Style::new().dimmed(), &format!("{text}\n"));
    }

    /// Talk in a style, where stderr shows styles. Talk that cannot be heard is no failure.
    pub(super) fn tell(&self, style: Style, text: &str) {
        let shown = visible(text);
        let (body, end) = match shown.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (&*shown, ""),
        };
        let is_plain = !self.err.has_colour || body.is_empty() || style == Style::new();
        let told = if is_plain { format!("{body}{end}") } else { format!("{style}{body}{style:#}{end}") };
        drop(self.err.write(told.as_bytes()));
    }
}

impl Side {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.stream {
            Stream::Out => put(&mut io::stdout().lock(), bytes),
            Stream::Err => put(&mut io::stderr().lock(), bytes),
            #[cfg(test)]
            Stream::Kept(kept) => {
                kept.lock().expect("not poisoned").extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn put(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

/// The model's reasoning.
pub(super) const THINKING: Style = Style::new().dimmed();
/// A tool and its result.
pub(super) const TOOL: Style = AnsiColor::Cyan.on_default();
/// What went wrong.
pub(super) const ERROR: Style = AnsiColor::Red.on_default();

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A terminal that keeps what is written: both streams in one, as a screen shows them, or apart, as pipes.
    pub(in crate::cli) struct Screen {
        pub(in crate::cli) terminal: Terminal,
        out: Arc<Mutex<Vec<u8>>>,
        err: Arc<Mutex<Vec<u8>>>,
    }

    impl Screen {
        /// A terminal that shows both.
        pub(in crate::cli) fn watched(has_colour: bool) -> Self {
            let both = Arc::new(Mutex::new(Vec::new()));
            Self::over(Arc::clone(&both), both, (true, has_colour))
        }

        /// Two pipes.
        pub(in crate::cli) fn piped() -> Self {
            Self::over(Arc::default(), Arc::default(), (false, false))
        }

        fn over(
            out: Arc<Mutex<Vec<u8>>>,
            err: Arc<Mutex<Vec<u8>>>,
            (is_terminal, has_colour): (bool, bool),
        ) -> Self {
            let side = |kept: &Arc<Mutex<Vec<u8>>>| Side {
                stream: Stream::Kept(Arc::clone(kept)),
                is_terminal,
                has_colour,
            };
            Self { terminal: Terminal { out: side(&out), err: side(&err) }, out, err }
        }

        pub(in crate::cli) fn out(&self) -> String {
            String::from_utf8(self.out.lock().expect("not poisoned").clone()).expect("UTF-8")
        }

        pub(in crate::cli) fn err(&self) -> String {
            String::from_utf8(self.err.lock().expect("not poisoned").clone()).expect("UTF-8")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Screen;

    #[test]
    fn p9_a_terminal_obeys_nobody_but_us_and_a_pipe_gets_every_byte() {
        let (screen, pipe) = (Screen::watched(false), Screen::piped());
        for terminal in [&screen.terminal, &pipe.terminal] {
            terminal.data("a\u{1b}[2Jb").expect("written");
            terminal.say("c\u{1b}[2Jd");
        }
        assert_eq!(screen.out(), "a␛[2Jbc␛[2Jd\n");
        assert_eq!((pipe.out().as_str(), pipe.err().as_str()), ("a\u{1b}[2Jb", "c␛[2Jd\n"));
    }
}
