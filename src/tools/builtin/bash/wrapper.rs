//! Commands that run other commands. Owns how to find the inner one behind their own options; refuses to judge it.

use super::word::Word;

/// A command that runs the command in its arguments.
struct Wrapper {
    name: &'static str,
    /// Short options with a value.
    valued: &'static str,
    /// Arguments of its own before the command.
    own: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, own: usize) -> Wrapper {
    Wrapper { name, valued, own }
}

const WRAPPERS: [Wrapper; 22] = [
    wrapper("{", "", 0),
    wrapper("builtin", "", 0),
    wrapper("busybox", "", 0),
    wrapper("chrt", "TPD", 1),
    wrapper("command", "", 0),
    wrapper("env", "uC", 0),
    wrapper("exec", "a", 0),
    wrapper("flock", "wE", 1),
    wrapper("ionice", "cnpPu", 0),
    wrapper("ltrace", "aADeFlnopsuwx", 0),
    wrapper("nice", "n", 0),
    wrapper("nohup", "", 0),
    wrapper("prlimit", "", 0),
    wrapper("setsid", "", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("strace", "aebIoOpPsSuUX", 0),
    wrapper("taskset", "", 1),
    wrapper("time", "fo", 0),
    wrapper("timeout", "ks", 1),
    wrapper("toybox", "", 0),
    wrapper("watch", "nq", 0),
    wrapper("xargs", "adEILnPs", 0),
];
/// Long options whose value is the next argument.
const VALUED: [&str; 13] = [
    "--adjustment",
    "--arg-file",
    "--chdir",
    "--class",
    "--delimiter",
    "--format",
    "--interval",
    "--kill-after",
    "--max-args",
    "--max-procs",
    "--output",
    "--signal",
    "--unset",
];
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"];

/// What a command runs beside itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner<'a> {
    /// Nothing that can be seen.
    None,
    /// The command in its arguments.
    Words(&'a [Word]),
    /// A script in its arguments.
    Source(String),
    /// The script that it reads from standard input.
    Input,
}

/// The name of a command without its path, in lower case, as if every variable in it were empty.
pub(super) fn name(word: &Word) -> String {
    let text = word.written();
    text.rsplit('/').next().unwrap_or_default().trim().to_lowercase()
}

/// What the command of these words runs.
pub(super) fn look_inside(words: &[Word]) -> Inner<'_> {
    let Some((first, arguments)) = words.split_first() else { return Inner::None };
    let name = name(first);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return wrapper.inner(arguments);
    }
    match name.as_str() {
        shell if SHELLS.contains(&shell) => script(arguments),
        "eval" => Inner::Source(joined(arguments)),
        "trap" => arguments.iter().find(|word| !word.text().starts_with('-')).map_or(Inner::None, source),
        "." | "source" if arguments.first().is_some_and(is_input) => Inner::Input,
        "find" => found(arguments),
        _ => Inner::None,
    }
}

impl Wrapper {
    fn inner<'a>(&self, mut words: &'a [Word]) -> Inner<'a> {
        let mut own = self.own;
        while let Some((word, rest)) = words.split_first() {
            let text = word.text();
            let is_option = text.len() > 1 && text.starts_with('-');
            if self.name == "command" && is_option && text.contains(['v', 'V']) {
                return Inner::None;
            }
            if self.name == "env" && (text == "-S" || text == "--split-string") {
                return Inner::Source(joined(rest));
            }
            if self.name == "flock" && (text == "-c" || text == "--command") {
                return rest.first().map_or(Inner::None, source);
            }
            if text == "--" {
                words = rest;
            } else if is_option {
                let skipped = usize::from(self.takes_value(&text));
                words = rest.get(skipped..).unwrap_or_default();
            } else if word.is_assignment() {
                words = rest;
            } else if own > 0 {
                own = own.saturating_sub(1);
                words = rest;
            } else {
                return Inner::Words(words);
            }
        }
        Inner::None
    }

    /// Whether the option's value is the next word, not the rest of this one.
    fn takes_value(&self, option: &str) -> bool {
        if option.starts_with("--") {
            return VALUED.contains(&option);
        }
        let at = option.char_indices().skip(1).find(|(_, c)| self.valued.contains(*c)).map(|(at, _)| at);
        at.is_some_and(|at| at.saturating_add(1) == option.len())
    }
}

/// The script that a shell with these arguments runs.
fn script(arguments: &[Word]) -> Inner<'_> {
    let (mut is_text, mut words) = (false, arguments.iter());
    while let Some(word) = words.next() {
        let text = word.text();
        let is_option = text.len() > 1 && text.starts_with(['-', '+']) && text != "--";
        if text == "--rcfile" || text == "--init-file" {
            words.next();
        } else if is_option && !text.starts_with("--") {
            is_text |= text.starts_with('-') && text.contains('c');
            if text.ends_with(['o', 'O']) {
                words.next();
            }
        } else if !is_option && text != "--" {
            return match (is_text, is_input(word)) {
                (true, _) => source(word),
                (false, true) => Inner::Input,
                (false, false) => Inner::None,
            };
        }
    }
    if is_text { Inner::None } else { Inner::Input }
}

/// What `find` runs for each file.
fn found(arguments: &[Word]) -> Inner<'_> {
    let is_start = |word: &Word| matches!(word.text().as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let Some(start) = arguments.iter().position(is_start) else { return Inner::None };
    Inner::Words(arguments.get(start.saturating_add(1)..).unwrap_or_default())
}

fn source(word: &Word) -> Inner<'static> {
    Inner::Source(word.text())
}

fn is_input(word: &Word) -> bool {
    matches!(word.text().as_str(), "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// The words as one line.
pub(super) fn joined(words: &[Word]) -> String {
    words.iter().map(Word::text).collect::<Vec<_>>().join(" ")
}
