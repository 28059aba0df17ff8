//! Finds the inner command of commands that run other commands.

use super::command::ShellWord;
use crate::tools::text::has_word;

/// Long options whose value is the next argument.
const VALUED: &str = "\
    --adjustment --arg-file --chdir --class --delimiter --format --interval --kill-after --max-args \
    --max-procs --output --signal --unset";
/// A command that runs the command in its arguments.
struct Wrapper {
    name: &'static str,
    /// Short options with a value.
    valued: &'static str,
    /// Its own arguments before the command.
    own_arguments: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, own_arguments: usize) -> Wrapper {
    Wrapper { name, valued, own_arguments }
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
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"];

/// The command or script that a command runs.
#[derive(Debug)]
pub(super) enum InnerScript<'a> {
    /// None that is visible.
    None,
    /// The command in its arguments.
    Words(&'a [ShellWord]),
    /// A script in its arguments.
    Text(String),
    /// The script that it reads from standard input.
    Input,
}

/// The name of a command without its path, in lower case, as if every variable in it were empty.
pub(super) fn name(word: &ShellWord) -> String {
    word.fixed.rsplit('/').next().unwrap_or_default().trim().to_lowercase()
}

pub(super) fn inner_script(words: &[ShellWord]) -> InnerScript<'_> {
    let Some((first, arguments)) = words.split_first() else { return InnerScript::None };
    let name = name(first);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        return wrapper.inner(arguments);
    }
    match name.as_str() {
        shell if SHELLS.contains(&shell) => script(arguments),
        "eval" => InnerScript::Text(joined(arguments)),
        "trap" => arguments
            .iter()
            .find(|word| !word.text.as_str().starts_with('-'))
            .map_or(InnerScript::None, source),
        "." | "source" if arguments.first().is_some_and(is_input) => InnerScript::Input,
        "find" => find_exec(arguments),
        _ => InnerScript::None,
    }
}

impl Wrapper {
    fn inner<'a>(&self, mut words: &'a [ShellWord]) -> InnerScript<'a> {
        let mut own_arguments = self.own_arguments;
        while let Some((word, rest)) = words.split_first() {
            let text = word.text.as_str();
            let is_option = text.len() > 1 && text.starts_with('-');
            if self.name == "command" && is_option && text.contains(['v', 'V']) {
                return InnerScript::None;
            }
            if self.name == "env" && (text == "-S" || text == "--split-string") {
                return InnerScript::Text(joined(rest));
            }
            if self.name == "flock" && (text == "-c" || text == "--command") {
                return rest.first().map_or(InnerScript::None, source);
            }
            if text == "--" {
                words = rest;
            } else if is_option {
                let skipped = usize::from(self.takes_value(text));
                words = rest.get(skipped..).unwrap_or_default();
            } else if word.is_assignment() {
                words = rest;
            } else if own_arguments > 0 {
                own_arguments = own_arguments.saturating_sub(1);
                words = rest;
            } else {
                return InnerScript::Words(words);
            }
        }
        InnerScript::None
    }

    /// Whether the option's value is the next word, not the rest of this one.
    fn takes_value(&self, option: &str) -> bool {
        if option.starts_with("--") {
            return has_word(VALUED, option);
        }
        let at = option.char_indices().skip(1).find(|(_, c)| self.valued.contains(*c)).map(|(at, _)| at);
        at.is_some_and(|at| at.saturating_add(1) == option.len())
    }
}

/// The script that a shell with these arguments runs.
fn script(arguments: &[ShellWord]) -> InnerScript<'_> {
    let (mut is_text, mut words) = (false, arguments.iter());
    while let Some(word) = words.next() {
        let text = word.text.as_str();
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
                (false, true) => InnerScript::Input,
                (false, false) => InnerScript::None,
            };
        }
    }
    if is_text { InnerScript::None } else { InnerScript::Input }
}

/// The command that `find` runs for each file.
fn find_exec(arguments: &[ShellWord]) -> InnerScript<'_> {
    let is_start = |word: &ShellWord| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let Some(start) = arguments.iter().position(is_start) else { return InnerScript::None };
    InnerScript::Words(arguments.get(start.saturating_add(1)..).unwrap_or_default())
}

fn source(word: &ShellWord) -> InnerScript<'static> {
    InnerScript::Text(word.text.clone())
}

fn is_input(word: &ShellWord) -> bool {
    matches!(word.text.as_str(), "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// The words as one line.
pub(super) fn joined(words: &[ShellWord]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
