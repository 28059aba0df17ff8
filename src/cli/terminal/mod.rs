//! The two output streams of a command: data on stdout, messages on stderr. Everything that reaches a
//! terminal goes through `escape`. Files that a command reads.

mod escape;
pub(super) mod progress;

use anstyle::{AnsiColor, Style};
use escape::visible;
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
#[cfg(test)]
use std::sync::{Arc, Mutex};

/// Columns of an output that is not a terminal.
const PLAIN_COLUMNS: usize = 100;

/// The narrowest and widest width that lines are fitted to.
const COLUMNS: (usize, usize) = (40, 160);

/// Moves the cursor home and erases all that follows.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";

/// Opens a file to read; `-` is stdin.
pub(crate) fn open_input(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}

#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    out: OutputStream,
    err: OutputStream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// If the stream is a terminal.
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone)]
struct OutputStream {
    stream: StreamTarget,
    is_terminal: bool,
    has_colour: bool,
}

#[derive(Debug, Clone)]
enum StreamTarget {
    Out,
    Err,
    #[cfg(test)]
    Captured(Arc<Mutex<Vec<u8>>>),
}

impl Terminal {
    pub(crate) fn new(colour: Colour) -> Self {
        let stream_of = |stream, is_terminal| {
            let has_colour = colour == Colour::Always || (colour == Colour::Auto && is_terminal);
            OutputStream { stream, is_terminal, has_colour }
        };
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { out: stream_of(StreamTarget::Out, out), err: stream_of(StreamTarget::Err, err) }
    }

    /// Whether stderr is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        self.err.is_terminal
    }

    /// Whether stdout is a terminal: data is shown at once and cannot be taken back.
    pub(crate) fn shows_data(&self) -> bool {
        self.out.is_terminal
    }

    /// Width of a message line.
    pub(crate) fn columns(&self) -> usize {
        if !self.err.is_terminal {
            return PLAIN_COLUMNS;
        }
        let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        if width == 0 { PLAIN_COLUMNS } else { width.clamp(COLUMNS.0, COLUMNS.1) }
    }

    /// Writes data without adding a newline: unchanged to a file or a pipe, escaped to a terminal.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let escaped = if self.out.is_terminal { visible(text) } else { Cow::Borrowed(text) };
        self.out.write(escaped.as_bytes())
    }

    /// Clears the screen, if data goes to a terminal.
    pub(crate) fn clear(&self) -> io::Result<()> {
        if self.out.is_terminal { self.out.write(CLEAR) } else { Ok(()) }
    }

    /// Writes a line of data.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// Writes a list as JSON, or a line for each item.
    pub(crate) fn list(
        &self,
        items: Vec<Value>,
        as_json: bool,
        describe: impl Fn(&Value) -> String,
    ) -> io::Result<()> {
        if as_json {
            return self.line(&Value::from(items).to_string());
        }
        items.iter().try_for_each(|item| self.line(&describe(item)))
    }

    /// Writes a program's own stderr output.
    pub(crate) fn program_error(&self, text: &str) -> io::Result<()> {
        let escaped = if self.err.is_terminal { visible(text) } else { Cow::Borrowed(text) };
        self.err.write(escaped.as_bytes())
    }

    /// Writes an error message.
    pub(crate) fn error(&self, text: &str) {
        self.message(ERROR, &format!("{text}\n"));
    }

    /// Writes a prompt; the answer is typed behind it.
    pub(crate) fn prompt(&self, text: &str) {
        self.message(Style::new(), text);
    }

    /// Writes a line of information.
    pub(crate) fn info(&self, text: &str) {
        self.message(Style::new().dimmed(), &format!("{text}\n"));
    }

    /// Writes a message in a style, where stderr shows styles. A message that cannot be written is dropped.
    pub(crate) fn message(&self, style: Style, text: &str) {
        let escaped = visible(text);
        let body = escaped.strip_suffix('\n').unwrap_or(&escaped);
        let end = if body.len() < escaped.len() { "\n" } else { "" };
        let is_plain = !self.err.has_colour || body.is_empty() || style == Style::new();
        let styled = if is_plain { format!("{body}{end}") } else { format!("{style}{body}{style:#}{end}") };
        drop(self.err.write(styled.as_bytes()));
    }
}

impl OutputStream {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.stream {
            StreamTarget::Out => write_flushed(&mut io::stdout().lock(), bytes),
            StreamTarget::Err => write_flushed(&mut io::stderr().lock(), bytes),
            #[cfg(test)]
            StreamTarget::Captured(captured) => {
                captured.lock().expect("not poisoned").extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn write_flushed(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

/// Style of the model's reasoning.
pub(crate) const THINKING: Style = Style::new().dimmed();
/// Style of a tool call and its result.
pub(crate) const TOOL: Style = AnsiColor::Cyan.on_default();
pub(crate) const ERROR: Style = AnsiColor::Red.on_default();

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Captures the output: both streams together, as on a screen, or separately, as in pipes.
    pub(crate) struct FakeTerminal {
        pub(crate) terminal: Terminal,
        out: Arc<Mutex<Vec<u8>>>,
        err: Arc<Mutex<Vec<u8>>>,
    }

    impl FakeTerminal {
        /// A terminal that shows both.
        pub(crate) fn watched(has_colour: bool) -> Self {
            let both = Arc::new(Mutex::new(Vec::new()));
            Self::over(Arc::clone(&both), both, (true, has_colour))
        }

        /// Two pipes.
        pub(crate) fn piped() -> Self {
            Self::over(Arc::default(), Arc::default(), (false, false))
        }

        fn over(
            out: Arc<Mutex<Vec<u8>>>,
            err: Arc<Mutex<Vec<u8>>>,
            (is_terminal, has_colour): (bool, bool),
        ) -> Self {
            let stream_of = |captured: &Arc<Mutex<Vec<u8>>>| OutputStream {
                stream: StreamTarget::Captured(Arc::clone(captured)),
                is_terminal,
                has_colour,
            };
            Self { terminal: Terminal { out: stream_of(&out), err: stream_of(&err) }, out, err }
        }

        pub(crate) fn out(&self) -> String {
            String::from_utf8(self.out.lock().expect("not poisoned").clone()).expect("UTF-8")
        }

        pub(crate) fn err(&self) -> String {
            String::from_utf8(self.err.lock().expect("not poisoned").clone()).expect("UTF-8")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::FakeTerminal;

    #[test]
    fn p9_control_characters_are_escaped_on_terminals_and_kept_in_pipes() {
        let (screen, pipe) = (FakeTerminal::watched(false), FakeTerminal::piped());
        for terminal in [&screen.terminal, &pipe.terminal] {
            terminal.data("a\u{1b}[2Jb").expect("written");
            terminal.info("c\u{1b}[2Jd");
        }
        assert_eq!(screen.out(), "a␛[2Jbc␛[2Jd\n");
        assert_eq!((pipe.out().as_str(), pipe.err().as_str()), ("a\u{1b}[2Jb", "c␛[2Jd\n"));
    }
}
