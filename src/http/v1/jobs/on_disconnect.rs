//! `on_disconnect: cancel`: cancels a job whose client left. The end of the job and the shutdown of the
//! server do not count as leaving.

use crate::domain::id::{JobId, UserId};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::sse::stream::DisconnectGuard;
use crate::ports::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// Attempts while the store is busy.
const TRIES: u32 = 50;
/// Between two attempts.
const BETWEEN: Duration = Duration::from_millis(100);

/// Cancels the job when dropped, unless it was disarmed or the server is closing its streams.
pub(crate) struct CancelOnDisconnect {
    app: Arc<AppDependencies>,
    shutdown: Shutdown,
    user: UserId,
    job: JobId,
    armed: bool,
}

impl CancelOnDisconnect {
    pub(crate) fn new(context: &ServerContext, user: UserId, job: JobId) -> Self {
        Self { app: Arc::clone(&context.app), shutdown: context.shutdown.clone(), user, job, armed: true }
    }
}

impl DisconnectGuard for CancelOnDisconnect {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDisconnect {
    fn drop(&mut self) {
        if !self.armed || self.shutdown.stage() >= ShutdownStage::Closing {
            return;
        }
        let (app, user, job) = (Arc::clone(&self.app), self.user, self.job);
        // Without a runtime the process is ending; the job continues after the restart.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(cancel(app, user, job)));
        }
    }
}

async fn cancel(app: Arc<AppDependencies>, user: UserId, job: JobId) {
    for _ in 0..TRIES {
        match app.store.cancel(user, job).await {
            Err(StoreError::Busy) => tokio::time::sleep(BETWEEN).await,
            Err(error) => {
                return tracing::warn!(%job, %error, "the job of a vanished client was not cancelled");
            }
            Ok(_) => return tracing::debug!(%job, "its client went away: cancelled"),
        }
    }
    tracing::warn!(%job, "the store stayed busy: the job of a vanished client goes on");
}
