//! Checks a command line before it runs, to explain at once what can only fail. It helps the model and is
//! never the boundary: the kernel is (P5), because a command can be written in countless ways.

use super::command::{CommandEnd, ShellCommand, ShellWord};
use super::deny;
use super::path::ShellPath;
use super::refusal::{CommandRefusal, Reason};
use super::rules::BashRules;
use super::split::split;
use super::wrapper::{InnerScript, inner_script, joined, name};

/// The deepest nesting of scripts.
const NESTING: usize = 16;
/// The longest chain of commands that run another one.
const WRAPPERS: usize = 16;

/// Whether the line may run in this directory. The error names the refused part.
pub(super) fn check_command(
    command: &str,
    directory: &ShellPath,
    rules: &BashRules,
) -> Result<(), CommandRefusal> {
    Guard { rules, depth: 0 }.script(command, directory)
}

#[derive(Clone, Copy)]
struct Guard<'a> {
    rules: &'a BashRules,
    /// The nesting of this script.
    depth: usize,
}

impl Guard<'_> {
    fn script(self, source: &str, directory: &ShellPath) -> Result<(), CommandRefusal> {
        if self.depth >= NESTING {
            return Err(CommandRefusal { segment: source.trim().to_owned(), reason: Reason::TooDeep });
        }
        let (mut directory, mut input) = (directory.clone(), String::new());
        for command in split(source) {
            input.push_str(&command.input);
            self.command(&command, &input, &directory)?;
            directory = directory_after(&command, directory);
            input = if command.end == CommandEnd::Pipe { output(&command) } else { String::new() };
        }
        Ok(())
    }

    fn inner(self, source: &str, directory: &ShellPath) -> Result<(), CommandRefusal> {
        Self { depth: self.depth.saturating_add(1), ..self }.script(source, directory)
    }

    fn command(
        self,
        command: &ShellCommand,
        input: &str,
        directory: &ShellPath,
    ) -> Result<(), CommandRefusal> {
        for nested in &command.nested {
            self.inner(nested, directory)?;
        }
        for (name, body) in &command.functions {
            if deny::is_fork_bomb(name, body, NESTING) {
                let reason = Reason::ForkBomb(name.clone());
                return Err(CommandRefusal { segment: format!("{name}() {{ … }}"), reason });
            }
            self.inner(body, &ShellPath::unknown())?;
        }
        if command.words.is_empty() && command.writes.is_empty() {
            return Ok(());
        }
        let refused = |reason| CommandRefusal { segment: command.text.clone(), reason };
        let is_exempt = self.rules.exempts(&command.text).map_err(refused)?;
        if !is_exempt {
            let pattern = self.rules.denies(&[&command.text, &joined(&command.words)]);
            let device = || command.writes.iter().find_map(|target| deny::device(target, directory));
            if let Some(reason) = pattern.or_else(device) {
                return Err(refused(reason));
            }
        }
        self.words(command.command(), is_exempt, input, directory)?
            .map_or(Ok(()), |reason| Err(refused(reason)))
    }

    /// Checks the command, the command that it runs, and so on.
    fn words(
        self,
        words: &[ShellWord],
        is_exempt: bool,
        input: &str,
        directory: &ShellPath,
    ) -> Result<Option<Reason>, CommandRefusal> {
        let mut words = words;
        for _ in 0..WRAPPERS {
            let denied = deny::command(words, directory).filter(|_| !is_exempt);
            if denied.is_some() {
                return Ok(denied);
            }
            match inner_script(words) {
                InnerScript::Words(inner) => words = inner,
                InnerScript::Text(source) if !is_exempt => {
                    return self.inner(&source, directory).map(|()| None);
                }
                InnerScript::Input => return self.inner(input, directory).map(|()| None),
                InnerScript::Text(_) | InnerScript::None => return Ok(None),
            }
        }
        Ok(Some(Reason::TooDeep).filter(|_| !is_exempt))
    }
}

/// The output of commands that print their arguments or input.
fn output(command: &ShellCommand) -> String {
    let Some((first, arguments)) = command.command().split_first() else { return String::new() };
    match name(first).as_str() {
        "echo" => {
            let at = arguments.iter().position(|word| !word.text.starts_with('-')).unwrap_or_default();
            joined(arguments.get(at..).unwrap_or_default()).replace("\\n", "\n")
        }
        // The format and each argument stand for themselves.
        "printf" => arguments.iter().map(|word| word.text.replace("\\n", "\n") + "\n").collect(),
        "cat" | "tee" => command.input.clone(),
        _ => String::new(),
    }
}

/// The directory of the shell after the command.
fn directory_after(command: &ShellCommand, directory: ShellPath) -> ShellPath {
    match command.command().split_first() {
        Some((first, arguments)) if matches!(first.text.as_str(), "cd" | "pushd") => {
            directory.after_cd(arguments)
        }
        Some((first, _)) if first.text == "popd" => ShellPath::unknown(),
        _ => directory,
    }
}
