//! Sessions: long-lived programs with the policy of commands and with pipes of their own, such as servers
//! over stdio.
//!
//! A session has no wall clock and no limit of processor time: its opener ends it. Its end includes the whole
//! process tree, the private directory and the slot.

mod handle;
mod monitor;
mod open;
mod registry;
mod spec;

pub use handle::SandboxSession;
pub use open::can_close_ports;
pub(crate) use open::{SessionDependencies, open};
pub(crate) use registry::SessionRegistry;
pub use spec::{SessionEnd, SessionLimits, SessionSpec};
