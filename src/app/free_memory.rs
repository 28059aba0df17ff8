//! Returns memory to the kernel after a peak: the C library keeps what was freed between blocks in use.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

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
            while ended_receiver.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if nanoclaw_sandbox::release_free_memory(KEPT_BYTES) {
                    tracing::debug!("returned free memory to the kernel");
                }
            }
        })?;
        Ok(Self { _ended: ended_sender })
    }
}
