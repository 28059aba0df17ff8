//! The vocabulary of the tables: profiles, system calls, tests on their arguments, outcomes.

/// Whom a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Strict and standard Python, and JavaScript at every level: no files but the library, one thread.
    Confined,
    /// Lenient Python: an own directory and threads.
    Roomy,
}

/// The profiles that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Both.
    All,
    /// `Confined` alone.
    Confined,
    /// `Roomy` alone.
    Roomy,
}

impl For {
    pub(crate) fn covers(self, profile: Profile) -> bool {
        match self {
            Self::All => true,
            Self::Confined => profile == Profile::Confined,
            Self::Roomy => profile == Profile::Roomy,
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
