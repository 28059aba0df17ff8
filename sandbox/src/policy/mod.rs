//! The kernel policy: which system calls and paths each profile may use, with a reason beside each rule.
//!
//! The first matching line decides what happens to a system call:
//! - a number from `0x4000_0000` on (x32, negative) or of another architecture (`int 0x80`): SIGSYS, status
//!   `forbidden_syscall`
//! - on the kill list (`kill_list`, `x86_64`): SIGSYS, status `forbidden_syscall`
//! - `Answer(errno)`: that errno; ENOSYS where callers continue without the call, EOPNOTSUPP for attributes
//! - `Supervised`: the command's supervisor makes the call (`supervised_calls`), or EPERM
//! - `Allow`, and `AllowIf` with matching arguments: the call runs; landlock decides on files, TCP and
//!   signals
//! - `AllowIf` with other arguments, and every call without a rule: EPERM
//!
//! Facts about the kernel, each with its test:
//! - Every number from 0 to 470, every alternative and every bit of a condition does what its row says, in
//!   each profile: `every_call::every_system_call_follows_the_policy_table`.
//! - Three filters stack at the end (broker, kill list, allow list); commands have four (supervised calls
//!   after the broker's); the children of a zygote have five (early and zygote before the last two):
//!   `policy::guest_processes_have_all_filters`.
//! - The most severe answer counts: `seccomp`, which the allow list of code permits, kills:
//!   `every_call::the_most_severe_filter_result_wins`.
//! - A thread started earlier is confined, too (`SECCOMP_FILTER_FLAG_TSYNC`):
//!   `seccomp::tests::a_thread_started_before_is_confined`.
//! - The upper half of the number's register is ignored: `1 << 32 | ptrace` kills, `1 << 32 | getpid`
//!   answers: `every_call`.
//! - `uretprobe` and `uprobe` (335, 336) pass every filter in newer kernels; the kernel itself ends them with
//!   SIGILL or ENXIO: `every_call::uprobe_calls_have_no_effect`.
//! - Landlock alone and filters alone let dozens of hostile programs escape. Both together let none escape.
//!   The self-test detects a missing layer: `ablation`.

mod allow_list;
mod kill_list;
mod landlock;
mod rule;
mod seccomp;
mod socket;
mod x86_64;

pub(crate) use allow_list::LISTABLE_MODE;
pub(crate) use landlock::{
    LandlockDomain, LandlockError, PathAccess, PathRule, RulesetKind, SCOPE_ABI, TCP_ABI, TcpAccess,
    build_ruleset, restrict, restriction_flags, restriction_number,
};
#[cfg(feature = "ablation")]
pub(crate) use rule::{ArgumentTest, CallAction, SyscallRule};
pub(crate) use rule::{FilterProfile, numbers};
pub(crate) use seccomp::{SeccompFilters, compile, compile_for_broker, install};
#[cfg(feature = "ablation")]
pub(crate) use seccomp::{allowed_rules, killed_rules};
