//! `?wait=SECONDS`: a reply held back until the job has ended. Owns the waiting; refuses to poll.

use crate::domain::id::{JobId, UserId};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::shutdown::Stage;
use std::sync::Arc;
use std::time::Duration;

/// A watch that the store has let go of is asked for again after this time.
const REWATCH: Duration = Duration::from_millis(200);

/// Returns when the job has ended, `seconds` have passed, or the server closes. A job that is not there is for the
/// caller to notice.
pub(crate) async fn until_ended(
    door: &Arc<Door>,
    user: UserId,
    id: JobId,
    seconds: u64,
) -> Result<(), Error> {
    if seconds == 0 {
        return Ok(());
    }
    let mut shutdown = door.shutdown.clone();
    tokio::select! {
        ended = ended(door, user, id) => ended,
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(()),
        () = shutdown.reached(Stage::Closing) => Ok(()),
    }
}

async fn ended(door: &Arc<Door>, user: UserId, id: JobId) -> Result<(), Error> {
    let store = &door.room.store;
    let mut newest = store.watch(id); // before the first look
    loop {
        newest.borrow_and_update();
        // One row that was written a moment ago, so a cached one: not worth a thread change.
        match store.job(user, id)? {
            Some(job) if !job.status.is_terminal() => {}
            _ => return Ok(()),
        }
        if newest.changed().await.is_err() {
            tokio::time::sleep(REWATCH).await;
            newest = store.watch(id);
        }
    }
}
