//! Settings of the server process: umask, no core dumps, file descriptor limit, memory, and the private data
//! directory.

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Only the owner may enter the data directory.
const PRIVATE_DIR: u32 = 0o700;

/// Heaps of the C library for all threads. With one a thread, freed memory stays resident: 64 slow readers
/// cost 52 MiB, with two heaps 4 MiB.
const HEAPS: i32 = 2;

/// Prepares the process for secrets and many connections. A failure is only logged.
pub(super) fn harden() {
    if !nanoclaw_sandbox::limit_malloc_arenas(HEAPS) {
        tracing::warn!("cannot limit the heaps of the C library; freed memory stays with the process");
    }
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot disable tracing by the same user");
    }
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// Returns memory that only the start needed: 7 of the 15 MiB of an idle server were code that never runs
/// again.
pub(super) fn release_startup_memory() {
    if !nanoclaw_sandbox::release_startup_memory() {
        tracing::debug!("cannot release the memory of the start");
    }
}

/// Creates the directory, with access for its owner only.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(PRIVATE_DIR))
}
