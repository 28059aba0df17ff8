//! The kernel policy as data: which system calls and files each profile has, with a reason beside each rule.
//!
//! Owns: the tables, their compilation to BPF, the landlock rules. Refuses: to apply anything (see `child`).
//!
//! What becomes of a system call, the first line that fits:
//!
//! | call | outcome | in the record |
//! |---|---|---|
//! | a number from `0x4000_0000` on (x32, negative), or another architecture's (`int 0x80`) | SIGSYS | `forbidden_syscall` |
//! | on the kill list (`kill`, `legacy`) | SIGSYS | `forbidden_syscall` |
//! | `Answer(0)` | nothing happens, success is pretended | – |
//! | `Answer(errno)`: ENOSYS where callers then go on without, EOPNOTSUPP for attributes | that errno | – |
//! | `Allow`; `AllowIf` when the arguments fit | the kernel makes it; landlock decides on files, TCP and signals | – |
//! | `AllowIf` when they do not fit, and whatever no row names | EPERM | – |
//!
//! What the kernel does with that, and the test that watches it:
//!
//! | fact | test |
//! |---|---|
//! | every number from 0 to 470, every way and every bit of a condition does what its row says, in each profile | `every_call::every_call_does_what_the_table_says` |
//! | three filters stack at the end (the broker's, kill and allow); a zygote's children have five (early and zygote before the last two) | `policy::the_filters_stack` |
//! | the most severe answer counts: `seccomp`, which code's allow list lets in, kills | `every_call::the_most_severe_answer_counts` |
//! | a thread started before is held, too (`SECCOMP_FILTER_FLAG_TSYNC`) | `filter::tests::a_thread_started_before_is_held` |
//! | the upper half of the number's register is nothing: `1 << 32 \| ptrace` kills, `1 << 32 \| getpid` answers | `every_call` |
//! | `uretprobe` and `uprobe` (335, 336) pass every filter in newer kernels; they end with SIGILL or ENXIO by themselves | `every_call::the_kernel_s_own_calls_give_nothing` |
//! | landlock alone and filters alone let dozens of hostile programs out, both together none; the self-test notices | `ablation` |

mod allow;
mod files;
mod filter;
mod kill;
mod legacy;
mod numbers;
mod rule;
mod socket;

pub(crate) use files::{
    Access, Domain, FileRule, Reach, SCOPE_ABI, build_ruleset, restrict, restriction_number,
};
pub(crate) use filter::{Filters, compile, compile_for_broker};
#[cfg(feature = "ablation")]
pub(crate) use filter::{allowed_rules, killed_rules};
pub(crate) use rule::Profile;
#[cfg(feature = "ablation")]
pub(crate) use rule::{Outcome, Rule, Test};
