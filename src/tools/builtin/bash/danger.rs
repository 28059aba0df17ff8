//! What no command may do, whoever configured the server. Owns the built-in rules, by command word; refuses to judge by
//! what a text contains: `echo rm` removes nothing.

use super::place::Place;
use super::refusal::Reason;
use super::script::{Item, Joint, Node, Redirect};
use super::word::{Piece, Word};
use super::wrapper::name;

const PRIVILEGE: [&str; 8] = ["sudo", "sudoedit", "su", "doas", "pkexec", "runuser", "run0", "sudo-rs"];
const DISK: [&str; 12] = [
    "mke2fs",
    "mkswap",
    "wipefs",
    "fdisk",
    "sfdisk",
    "gdisk",
    "sgdisk",
    "cfdisk",
    "parted",
    "diskpart",
    "blkdiscard",
    "format",
];
const POWER: [&str; 4] = ["shutdown", "reboot", "poweroff", "halt"];
/// What `systemctl` and `loginctl` can do to the machine.
const POWER_VERBS: [&str; 12] = [
    "poweroff",
    "reboot",
    "halt",
    "kexec",
    "soft-reboot",
    "suspend",
    "hibernate",
    "hybrid-sleep",
    "suspend-then-hibernate",
    "emergency",
    "rescue",
    "exit",
];
/// Commands that take trees when told to be recursive.
const TREES: [&str; 4] = ["rm", "chmod", "chown", "chgrp"];

/// What is wrong with this command, run in this place.
pub(super) fn of_command(words: &[Word], place: &Place) -> Option<Reason> {
    let (first, arguments) = words.split_first()?;
    let name = name(first);
    // A project may have a script of such a name; the system's own programs are found in the path, or by a full one.
    let is_of_project = first.text().contains('/') && place.to(first).is_of_project();
    let known = |names: &[&str]| names.contains(&name.as_str());
    match name.as_str() {
        _ if known(&PRIVILEGE) => Some(Reason::Privilege(name)),
        _ if known(&POWER) && !is_of_project => Some(Reason::Power(name)),
        _ if !is_of_project && (known(&DISK) || name == "mkfs" || name.starts_with("mkfs.")) => {
            Some(Reason::Disk(name))
        }
        "init" | "telinit" => {
            let stops = arguments.iter().any(|word| matches!(word.text().as_str(), "0" | "6"));
            (stops && !is_of_project).then_some(Reason::Power(name))
        }
        "systemctl" | "loginctl" => {
            let verb = arguments.iter().map(Word::text).find(|text| !text.starts_with('-'))?;
            let stops = POWER_VERBS.contains(&verb.as_str());
            stops.then(|| Reason::Power(format!("{name} {verb}")))
        }
        "del" | "erase" | "rd" | "rmdir" => {
            let is_switch = |word: &Word| matches!(word.text().to_lowercase().as_str(), "/f" | "/q" | "/s");
            let what = "a whole tree without asking".to_owned();
            arguments.iter().any(is_switch).then_some(Reason::Removal { command: name, what })
        }
        "find" => deletion(arguments, place),
        _ if known(&TREES) => tree(&name, arguments, place),
        _ => device(&name, arguments, place),
    }
}

/// What is wrong with where the output goes.
pub(super) fn of_redirect(redirect: &Redirect, place: &Place) -> Option<Reason> {
    match redirect {
        Redirect::Write(target) => place.to(target).device().map(Reason::Device),
        Redirect::Read | Redirect::Document(_) | Redirect::Text(_) => None,
    }
}

/// What is wrong with this function: it pipes itself into itself, or starts itself twice and does not wait.
pub(super) fn of_function(called: &str, body: &[Item]) -> Option<Reason> {
    let mut tally = Tally::default();
    tally.count(called, body);
    let is_bomb = tally.pipes > 0 || (tally.calls > 1 && tally.backgrounds > 0);
    is_bomb.then(|| Reason::ForkBomb(called.to_owned()))
}

/// How a function calls itself.
#[derive(Default)]
struct Tally {
    calls: usize,
    /// From itself into itself.
    pipes: usize,
    backgrounds: usize,
}

impl Tally {
    fn count(&mut self, called: &str, items: &[Item]) {
        let mut is_fed = false;
        for item in items {
            let before = self.calls;
            match &item.node {
                Node::Segment(segment) => {
                    let calls = segment.command().first().is_some_and(|word| word.text() == called);
                    self.calls = self.calls.saturating_add(usize::from(calls));
                }
                Node::Group(inner) | Node::Subshell(inner) => self.count(called, inner),
                Node::Function(..) => {}
            }
            let calls = self.calls > before;
            self.pipes = self.pipes.saturating_add(usize::from(calls && is_fed));
            let in_background = calls && item.joint == Joint::Background;
            self.backgrounds = self.backgrounds.saturating_add(usize::from(in_background));
            is_fed = calls && item.joint == Joint::Pipe;
        }
    }
}

/// `rm`, recursive or forced, and recursive `chmod` and its kin, by any spelling of their options.
fn tree(command: &str, arguments: &[Word], place: &Place) -> Option<Reason> {
    let (mut is_recursive, mut is_forced, mut options_end) = (false, false, false);
    let mut targets = Vec::new();
    for word in arguments {
        let text = word.text();
        if options_end || text.len() < 2 || !text.starts_with('-') {
            targets.push(word);
        } else if text == "--" {
            options_end = true;
        } else if text.starts_with("--") {
            // Long options may be shortened: `--rec`.
            is_recursive |= text.len() > 3 && "--recursive".starts_with(&text);
            is_forced |= text.len() > 2 && "--force".starts_with(&text);
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
    let what = targets.into_iter().find_map(|target| place.to(target).protected())?;
    let command = if is_recursive { format!("{command} -r") } else { format!("{command} -f") };
    Some(Reason::Removal { command, what })
}

/// `find PLACE … -delete`.
fn deletion(arguments: &[Word], place: &Place) -> Option<Reason> {
    let deletes = |word: &Word| matches!(word.text().as_str(), "-delete");
    let removes = |pair: &[Word]| match pair {
        [one, other] => one.text().starts_with("-exec") && name(other) == "rm",
        _ => false,
    };
    if !arguments.iter().any(deletes) && !arguments.windows(2).any(removes) {
        return None;
    }
    let is_link_option = |word: &&Word| matches!(word.text().as_str(), "-H" | "-L" | "-P");
    let starts = arguments.iter().skip_while(is_link_option);
    let starts = starts.take_while(|word| !word.text().starts_with(['-', '(', '!']));
    let what = starts.into_iter().find_map(|start| place.to(start).protected())?;
    Some(Reason::Removal { command: "find".to_owned(), what })
}

/// Commands that write to the files in their arguments.
fn device(command: &str, arguments: &[Word], place: &Place) -> Option<Reason> {
    let at = |word: &Word| place.to(word).device().map(Reason::Device);
    match command {
        "dd" => arguments.iter().find_map(|word| {
            let text = word.text();
            let target = text.strip_prefix("of=")?;
            at(&Word { pieces: vec![Piece::Literal(target.to_owned())] })
        }),
        "cp" | "mv" | "install" | "ln" => arguments.last().and_then(at),
        "tee" | "shred" | "truncate" => arguments.iter().find_map(at),
        _ => None,
    }
}
