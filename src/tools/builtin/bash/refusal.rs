//! The errors of refused command lines, for the model: which part, why, and what to do instead.

use std::fmt;

/// Characters of a quoted segment or name.
const QUOTE_CHARS: usize = 160;
/// Allow patterns in one message.
const PATTERNS: usize = 10;

/// The refusal of a command line because of one segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Command blocked, nothing was run: `{}`: {reason}", short(.segment))]
pub(super) struct CommandRefusal {
    /// As written.
    pub(super) segment: String,
    /// Why.
    pub(super) reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    /// It would become another user.
    #[error("'{0}' would change the user; commands run with the job's own rights: leave it out")]
    Privilege(String),
    /// It would remove files of others.
    #[error("'{command}' would take {what}; name paths inside the job's directory, relative to it")]
    Removal {
        /// The command and its option.
        command: String,
        /// The files.
        what: String,
    },
    /// It would change disks or file systems.
    #[error("'{0}' works on disks and their file systems; use plain files in the job's directory")]
    Disk(String),
    /// It would write to a device.
    #[error("it would write to the device {0}; write to a file in the job's directory, or to /dev/null")]
    Device(String),
    /// It would stop the machine.
    #[error("'{0}' would stop or restart the machine; a job may only end its own processes")]
    Power(String),
    /// It would be a fork bomb.
    #[error("the function '{0}' starts itself more than once: a fork bomb; use a loop with an end")]
    ForkBomb(String),
    /// The operator forbids it.
    #[error("it matches the deny pattern '{0}' (bash.deny_patterns); do it another way, or ask the operator")]
    Pattern(String),
    /// The operator does not allow it.
    #[error(
        "it is not in the allow list (bash.allow_patterns), of which every part of a line must match one: {0}"
    )]
    NotAllowed(Patterns),
    /// It is nested too deeply.
    #[error("it is nested too deeply to be judged; put it into a script file and run that")]
    TooDeep,
}

/// Patterns, shortened in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patterns(pub(super) Vec<String>);

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> =
            self.0.iter().take(PATTERNS).map(|pattern| format!("'{}'", short(pattern))).collect();
        f.write_str(&quoted.join(", "))?;
        if self.0.len() > PATTERNS { f.write_str(", …") } else { Ok(()) }
    }
}

/// The start of a text on one line.
pub(super) fn short(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTE_CHARS).map(|c| if c == '\n' { ' ' } else { c }).collect();
    if text.chars().nth(QUOTE_CHARS).is_some() {
        short.push('…');
    }
    short
}
