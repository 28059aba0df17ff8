//! The types of the policy tables: profiles, rules, tests on arguments, actions.

/// Which tables apply to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterProfile {
    /// Strict and standard Python, and JavaScript at every level: library files only, one thread.
    Confined,
    /// Lenient Python: a private directory and threads.
    Lenient,
    /// Commands: a private directory, the system's programs, processes.
    Shell,
    /// Commands that may use the network.
    Online,
}

impl FilterProfile {
    #[cfg(any(test, feature = "ablation"))]
    pub(crate) const ALL: [Self; 4] = [Self::Confined, Self::Lenient, Self::Shell, Self::Online];
}

/// The profiles that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleScope {
    All,
    /// The same, but the broker and the supervisors may make the call.
    Guests,
    /// Python and JavaScript, not commands.
    Code,
    Confined,
    Lenient,
    /// All but `Confined`.
    WithDirectory,
    /// Commands, with or without the network.
    Shell,
    ShellWithNetwork,
    ShellWithoutNetwork,
    /// `Lenient`, and commands without the network.
    WithDirectoryOffline,
}

impl RuleScope {
    pub(crate) fn covers(self, profile: FilterProfile) -> bool {
        match self {
            Self::All | Self::Guests => true,
            Self::Code => matches!(profile, FilterProfile::Confined | FilterProfile::Lenient),
            Self::Confined => profile == FilterProfile::Confined,
            Self::Lenient => profile == FilterProfile::Lenient,
            Self::WithDirectory => profile != FilterProfile::Confined,
            Self::Shell => matches!(profile, FilterProfile::Shell | FilterProfile::Online),
            Self::ShellWithNetwork => profile == FilterProfile::Online,
            Self::ShellWithoutNetwork => profile == FilterProfile::Shell,
            Self::WithDirectoryOffline => matches!(profile, FilterProfile::Lenient | FilterProfile::Shell),
        }
    }
}

/// A test on one argument: the bits under `mask` must equal `value`. Every argument is compared in 32 bits
/// unless `mask` is `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentTest {
    /// Index of the argument, from 0.
    pub argument: u8,
    /// The bits to compare; `u64::MAX` compares all 64 bits.
    pub mask: u64,
    pub value: u64,
}

/// The lower 32 bits.
pub(super) const LOW: u64 = 0xffff_ffff;

/// A test of the bits under `mask`.
pub(super) const fn bits(argument: u8, mask: u64, value: u64) -> ArgumentTest {
    ArgumentTest { argument, mask, value }
}

/// A test that compares the lower 32 bits under `mask` with a constant of libc.
pub(super) const fn test(argument: u8, mask: u64, value: i32) -> ArgumentTest {
    ArgumentTest { argument, mask, value: value.cast_unsigned() as u64 }
}

/// The filter's action for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallAction {
    /// The call runs.
    Allow,
    /// The call runs if all tests of one list hold; otherwise it fails with EPERM.
    AllowIf(&'static [&'static [ArgumentTest]]),
    /// The call does not run and returns this error number.
    Answer(i32),
    /// The supervisor of a command makes the call in its place, below the command's own directories. Without
    /// a supervisor it fails with EPERM.
    Supervised,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyscallRule {
    pub name: &'static str,
    /// The call's number on this architecture.
    pub number: i64,
    pub scope: RuleScope,
    pub action: CallAction,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "readers need the reason, and a test checks that it is there")
    )]
    pub because: &'static str,
}

/// The numbers of calls. libc lacks some for arm64; Linux gives new calls one number on all processors.
pub(crate) mod numbers {
    pub(crate) use libc::*;

    #[allow(non_upper_case_globals, reason = "named as in libc, which has it on x86-64")]
    pub(crate) const SYS_fchmodat2: c_long = 452;
}

/// The name of a call without the prefix of libc's constant.
pub(super) const fn call_name(constant: &'static str) -> &'static str {
    constant.split_at("SYS_".len()).1
}

/// Writes rules: `rows! { Scope action, "because": SYS_call SYS_call; … }`.
macro_rules! rows {
    ($($scope:ident $action:expr, $because:literal: $($call:ident)+;)+) => {
        &[$($($crate::policy::rule::SyscallRule {
            name: $crate::policy::rule::call_name(stringify!($call)),
            number: $crate::policy::rule::numbers::$call,
            scope: $crate::policy::rule::RuleScope::$scope,
            action: $action,
            because: $because,
        },)+)+]
    };
}

/// Allows a call whose argument is one of libc's constants: `one_of!(test_function: F_GETFD F_SETFD)`.
macro_rules! one_of {
    ($test:ident: $($constant:ident)+) => {
        $crate::policy::rule::CallAction::AllowIf(&[$(&[$test(libc::$constant)]),+])
    };
}

pub(super) use {one_of, rows};
