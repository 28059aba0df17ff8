//! Returns memory to the kernel: once after the start, and after a peak, because the C library keeps what was
//! freed between blocks in use.

use super::process;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time after which the start has ended, and the self-test of the sandbox with it. Earlier, the first
/// requests would need the memory again.
const START_TIME: Duration = Duration::from_secs(1);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(5);
/// Free heap that the process keeps for the next peak.
const KEPT_BYTES: usize = 16 << 20;

/// The thread; it ends when this is dropped.
pub(super) struct FreeMemoryReleaser {
    _ended: Sender<()>,
}

impl FreeMemoryReleaser {
    pub(super) fn start() -> io::Result<Self> {
        let (ended_sender, ended_receiver) = channel::<()>();
        std::thread::Builder::new().name("free-memory".to_owned()).spawn(move || {
            let runs_after = |pause| ended_receiver.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
            if runs_after(START_TIME) {
                process::release_startup_memory();
            }
            while runs_after(PAUSE) {
                if nanoclaw_sandbox::release_free_memory(KEPT_BYTES) {
                    tracing::debug!("returned free memory to the kernel");
                }
            }
        })?;
        Ok(Self { _ended: ended_sender })
    }
}
