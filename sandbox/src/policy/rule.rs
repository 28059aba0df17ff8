//! The vocabulary of the tables: profiles, system calls, tests on their arguments, outcomes.

use crate::broker::Task;
use crate::level::Level;

/// Whom a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Profile {
    /// Strict and standard Python, and JavaScript at every level: no files but the library, one thread.
    Confined,
    /// Lenient Python: an own directory and threads.
    Roomy,
    /// Commands: an own directory, the system's programs, processes.
    Shell,
    /// Commands whose operator lets them use the network.
    Online,
}

impl Profile {
    /// The profile of a task. JavaScript has no files and no threads of its own: it is confined at every level.
    pub(crate) fn of(task: &Task, level: Level) -> Self {
        match (task, level) {
            #[cfg(feature = "ablation")]
            (Task::Probe(crate::selftest::Probe::Calls { online: true, .. }), _) => Self::Online,
            (Task::JavaScript { .. }, _) | (_, Level::Strict | Level::Standard) => Self::Confined,
            (Task::Shell(task), _) if task.network => Self::Online,
            (Task::Shell(_), _) | (_, Level::Shell) => Self::Shell,
            (Task::Python { .. } | Task::Probe(_), Level::Lenient) => Self::Roomy,
        }
    }

    /// Every profile.
    #[cfg(any(test, feature = "ablation"))]
    pub(crate) const ALL: [Self; 4] = [Self::Confined, Self::Roomy, Self::Shell, Self::Online];
}

/// The profiles that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Every one.
    All,
    /// Python and JavaScript: no command.
    Code,
    /// `Confined` alone.
    Confined,
    /// `Roomy` alone.
    Roomy,
    /// Those with a directory of their own: all but `Confined`.
    Owners,
    /// Commands, with or without the network.
    Shell,
    /// Commands with the network.
    Online,
    /// Commands without it.
    Networkless,
    /// Those with a directory of their own but without the network.
    Offline,
}

impl For {
    pub(crate) fn covers(self, profile: Profile) -> bool {
        match self {
            Self::All => true,
            Self::Code => matches!(profile, Profile::Confined | Profile::Roomy),
            Self::Confined => profile == Profile::Confined,
            Self::Roomy => profile == Profile::Roomy,
            Self::Owners => profile != Profile::Confined,
            Self::Shell => matches!(profile, Profile::Shell | Profile::Online),
            Self::Online => profile == Profile::Online,
            Self::Networkless => profile == Profile::Shell,
            Self::Offline => matches!(profile, Profile::Roomy | Profile::Shell),
        }
    }
}

/// A test on one argument: the bits under `mask` must equal `value`. All arguments are compared in 32 bits but pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// Which argument, from 0.
    pub argument: u8,
    /// The bits looked at; `u64::MAX` looks at a whole 64-bit argument.
    pub mask: u64,
    /// What they must be.
    pub value: u64,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It runs.
    Allow,
    /// It runs if one of the lists of tests holds wholly; else EPERM.
    AllowIf(&'static [&'static [Test]]),
    /// It does not run and answers with this number (0 pretends success).
    Answer(i32),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The call's name.
    pub name: &'static str,
    /// The call's number on this architecture.
    pub number: i64,
    /// Where the rule holds.
    pub whom: For,
    /// What happens.
    pub outcome: Outcome,
    /// Why.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reason is for readers, and a test demands it"))]
    pub because: &'static str,
}

/// Writes rows: `rows! { For, "because", Outcome: call call call; … }`.
macro_rules! rows {
    ($($whom:ident $outcome:expr, $because:literal: $($call:ident)+;)+) => {
        &[$($($crate::policy::rule::Rule {
            name: stringify!($call),
            number: $crate::policy::rule::number!($call),
            whom: $crate::policy::rule::For::$whom,
            outcome: $outcome,
            because: $because,
        },)+)+]
    };
}

/// The number of a call by its name.
macro_rules! number {
    ($call:ident) => {
        $crate::policy::numbers::$call
    };
}

pub(crate) use {number, rows};
