//! The built-in deny rules. They check the command word: `echo rm` removes nothing.

use super::command::{CommandEnd, ShellCommand, ShellWord};
use super::path::ShellPath;
use super::refusal::Reason;
use super::split::split;
use super::wrapper::name;
use crate::tools::text::has_word;

/// Commands that change the user.
const PRIVILEGE: &str = "sudo sudoedit su doas pkexec runuser run0 sudo-rs";
/// Commands that work on disks and file systems.
const DISK: &str = "mke2fs mkswap wipefs fdisk sfdisk gdisk sgdisk cfdisk parted diskpart blkdiscard format";
/// Commands that stop the machine.
const POWER: &str = "shutdown reboot poweroff halt";
/// Verbs of `systemctl` and `loginctl` that stop the machine.
const POWER_VERBS: &str = "\
    poweroff reboot halt kexec soft-reboot suspend hibernate hybrid-sleep suspend-then-hibernate \
    emergency rescue exit";
/// Commands that work on whole trees if they are recursive.
const TREES: &str = "rm chmod chown chgrp";
/// Why this command may not run in this directory.
pub(super) fn command(words: &[ShellWord], directory: &ShellPath) -> Option<Reason> {
    let (first, arguments) = words.split_first()?;
    let name = name(first);
    // A project may have a script with such a name. The system's programs have an absolute path or none.
    let is_in_project = first.text.contains('/') && directory.to(first).is_in_project();
    match name.as_str() {
        _ if has_word(PRIVILEGE, &name) => Some(Reason::Privilege(name)),
        _ if has_word(POWER, &name) && !is_in_project => Some(Reason::Power(name)),
        _ if !is_in_project && (has_word(DISK, &name) || name == "mkfs" || name.starts_with("mkfs.")) => {
            Some(Reason::Disk(name))
        }
        "init" | "telinit" => {
            let stops = arguments.iter().any(|word| matches!(word.text.as_str(), "0" | "6"));
            (stops && !is_in_project).then_some(Reason::Power(name))
        }
        "systemctl" | "loginctl" => {
            let verb = arguments.iter().map(|word| word.text.as_str()).find(|text| !text.starts_with('-'))?;
            let stops = has_word(POWER_VERBS, verb);
            stops.then(|| Reason::Power(format!("{name} {verb}")))
        }
        "del" | "erase" | "rd" | "rmdir" => {
            let is_switch =
                |word: &ShellWord| matches!(word.text.to_lowercase().as_str(), "/f" | "/q" | "/s");
            let what = "a whole tree without asking".to_owned();
            arguments.iter().any(is_switch).then_some(Reason::Removal { command: name, what })
        }
        "find" => deletion(arguments, directory),
        _ if has_word(TREES, &name) => tree(&name, arguments, directory),
        _ => written_device(&name, arguments, directory),
    }
}

/// Why this file may not be written.
pub(super) fn device(target: &ShellWord, directory: &ShellPath) -> Option<Reason> {
    directory.to(target).device().map(Reason::Device)
}

/// Whether the function pipes itself into itself, or starts itself twice and does not wait.
pub(super) fn is_fork_bomb(function: &str, body: &str, depth: usize) -> bool {
    let commands = split(body);
    let calls = |command: &&ShellCommand| command.command().first().is_some_and(|word| word.text == function);
    let is_piped = commands.windows(2).any(|pair| match pair {
        [first, second] => first.end == CommandEnd::Pipe && calls(&first) && calls(&second),
        _ => false,
    });
    let is_background = |command: &ShellCommand| command.end == CommandEnd::Background;
    let is_doubled =
        commands.iter().filter(calls).count() > 1 && commands.iter().filter(calls).any(is_background);
    let nested = || commands.iter().flat_map(|command| &command.nested);
    is_piped || is_doubled || depth > 0 && nested().any(|body| is_fork_bomb(function, body, depth - 1))
}

/// `rm`, recursive or forced, and recursive `chmod` and its kin, by any spelling of their options.
fn tree(command: &str, arguments: &[ShellWord], directory: &ShellPath) -> Option<Reason> {
    let (mut is_recursive, mut is_forced, mut options_end) = (false, false, false);
    let mut targets = Vec::new();
    for word in arguments {
        let text = word.text.as_str();
        if options_end || text.len() < 2 || !text.starts_with('-') {
            targets.push(word);
        } else if text == "--" {
            options_end = true;
        } else if text.starts_with("--") {
            // Long options may be shortened: `--rec`.
            is_recursive |= text.len() > 3 && "--recursive".starts_with(text);
            is_forced |= text.len() > 2 && "--force".starts_with(text);
        } else {
            is_recursive |= text.contains(['r', 'R']);
            is_forced |= text.contains('f');
        }
    }
    let is_rm = command == "rm";
    let is_risky = is_recursive || (is_rm && is_forced);
    if !is_risky {
        return None;
    }
    let what = targets.into_iter().find_map(|target| directory.to(target).protected())?;
    let command = if is_recursive { format!("{command} -r") } else { format!("{command} -f") };
    Some(Reason::Removal { command, what })
}

/// `find PLACE … -delete`.
fn deletion(arguments: &[ShellWord], directory: &ShellPath) -> Option<Reason> {
    let deletes = |word: &ShellWord| matches!(word.text.as_str(), "-delete");
    let removes = |pair: &[ShellWord]| match pair {
        [first, second] => first.text.starts_with("-exec") && name(second) == "rm",
        _ => false,
    };
    if !arguments.iter().any(deletes) && !arguments.windows(2).any(removes) {
        return None;
    }
    let is_link_option = |word: &&ShellWord| matches!(word.text.as_str(), "-H" | "-L" | "-P");
    let starts = arguments.iter().skip_while(is_link_option);
    let starts = starts.take_while(|word| !word.text.starts_with(['-', '(', '!']));
    let what = starts.into_iter().find_map(|start| directory.to(start).protected())?;
    Some(Reason::Removal { command: "find".to_owned(), what })
}

/// Commands that write the files in their arguments.
fn written_device(command: &str, arguments: &[ShellWord], directory: &ShellPath) -> Option<Reason> {
    let device_of = |word: &ShellWord| device(word, directory);
    match command {
        "dd" => arguments.iter().find_map(|word| {
            let target = word.text.strip_prefix("of=")?;
            directory.to_text(target).device().map(Reason::Device)
        }),
        "cp" | "mv" | "install" | "ln" => arguments.last().and_then(device_of),
        "tee" | "shred" | "truncate" => arguments.iter().find_map(device_of),
        _ => None,
    }
}
