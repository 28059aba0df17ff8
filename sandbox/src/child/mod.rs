//! The child's side of a run, from the fork to the guest's first instruction.
//!
//! If any step of the set-up fails, the child reports it and runs nothing.

mod confine;
mod fds;
mod probe;
mod start;

pub(crate) use confine::{
    FIRST_PRIVATE_UID, SHARED_UID_TASKS, UidIsolation, drop_broker_privileges, drop_capabilities,
    enter_directory, enter_session, limit_resources, set_parent_death_signal,
};
pub(crate) use fds::{FRAMES_FD, RESULT_FD, RunFds, keep_only_control_socket, take_fds};
pub(crate) use probe::{ALL_BLOCKED, FIRST_ESCAPE, QUIET_ATTEMPTS, SelfTestProbe, UNDECIDED};
pub(crate) use start::{ForkContext, run, run_as_spare};

pub(crate) use crate::child_report::SET_UP_FAILED;
