//! Processes that run without one of the two kernel layers.

use std::io::Write;
use std::sync::OnceLock;

use seccompiler::{BpfProgram, sock_filter};

use crate::sys;

/// One of the two layers that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLayer {
    /// Files, TCP, signals.
    Landlock,
    /// System calls.
    Seccomp,
}

static MISSING: OnceLock<KernelLayer> = OnceLock::new();

/// A call without effect or error. It replaces the restriction in a process without landlock.
pub(crate) const IDLE_CALL: i64 = libc::SYS_getpid;

/// Runs this process and all its descendants without a layer. Call it before
/// [`child_hook`](crate::child_hook).
pub fn live_without(layer: KernelLayer) {
    MISSING.get_or_init(|| layer);
}

/// Whether this process runs without landlock.
pub(crate) fn lacks_landlock() -> bool {
    MISSING.get() == Some(&KernelLayer::Landlock)
}

/// Filters without effect, for a process that runs without seccomp. The second one refuses `PR_GET_DUMPABLE`:
/// with this call a child of a zygote checks that its filters are in force.
pub(crate) fn replacement_filters() -> Option<[BpfProgram; 2]> {
    if MISSING.get() != Some(&KernelLayer::Seccomp) {
        return None;
    }
    let number = u32::try_from(libc::SYS_prctl).unwrap_or(u32::MAX);
    let answers = vec![
        instruction(LOAD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 0, 3, number),
        instruction(LOAD, 0, 0, FIRST_ARGUMENT),
        instruction(JUMP_IF_EQUAL, 0, 1, PR_GET_DUMPABLE),
        instruction(RETURN, 0, 0, REFUSE_WITH_EPERM),
        instruction(RETURN, 0, 0, ALLOW),
    ];
    Some([vec![instruction(RETURN, 0, 0, ALLOW)], answers])
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE_WITH_EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const PR_GET_DUMPABLE: u32 = libc::PR_GET_DUMPABLE.unsigned_abs();
/// Offset of the lower half of the first argument in the data of a filter, on little-endian machines.
const FIRST_ARGUMENT: u32 = 16;

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Makes raw calls in the child of a self-test and writes one line per answer. A call that kills has no line.
pub(crate) fn make_calls(calls: &[[u64; 7]]) -> i32 {
    for call in calls {
        let line = format!("{}\n", sys::attempt::call(*call));
        // Without standard output the test misses its lines.
        std::io::stdout().write_all(line.as_bytes()).ok();
    }
    0
}
