//! A start that takes long: a large file to repair, a migration, a compaction. Owns asking the service manager for more time
//! while it lasts, and for how long at most; refuses to be there when no manager waits (`NOTIFY_SOCKET`).

use super::{process, system};
use sd_notify::NotifyState;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often more time is asked for; the first time well before systemd's own 90 s are over.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How much is asked for, microseconds: three times the pause.
const MORE_USEC: u32 = 30_000_000;
/// A start that takes longer hangs: half an hour.
const MOST_ASKS: u32 = 180;

/// Does what may take long at a start, with a manager that waits for it.
pub(super) fn during<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    if system::variable("NOTIFY_SOCKET").is_none() {
        return Ok(act());
    }
    let (ending, ended) = channel::<()>();
    let asking = move || {
        for _ in 0..MOST_ASKS {
            if ended.recv_timeout(ASK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            process::notify(&[
                NotifyState::ExtendTimeoutUsec(MORE_USEC),
                NotifyState::Status("opening the store; a large one is repaired, migrated or compacted"),
            ]);
        }
    };
    std::thread::Builder::new().name("patience".to_owned()).spawn(asking)?;
    let done = act();
    drop(ending);
    Ok(done)
}
