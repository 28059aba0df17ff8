//! Responses with `store: false`. Their jobs are deleted once nobody reads them any more.

use crate::domain::id::{JobId, UserId};
use crate::domain::response_request::ResponseRequest;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use std::sync::Arc;

/// A response that is not stored. Dropping this deletes its job, if that has ended. Otherwise the client has
/// left: the job is cancelled, and stays in `/v1/jobs` until its retention ends, as after a crash.
///
/// Drop it before the guard that cancels the job, so that the job's state is that of the client's last read.
pub(super) struct UnstoredResponse {
    app: Arc<AppDependencies>,
    user: UserId,
    pub(super) job: JobId,
}

impl UnstoredResponse {
    /// `None` for a response that is stored.
    pub(super) fn of(
        context: &ServerContext,
        user: UserId,
        job: JobId,
        request: &ResponseRequest,
    ) -> Option<Self> {
        (!request.is_stored).then(|| Self { app: Arc::clone(&context.app), user, job })
    }
}

impl Drop for UnstoredResponse {
    fn drop(&mut self) {
        let (app, user, job) = (Arc::clone(&self.app), self.user, self.job);
        let has_ended = matches!(app.store.job(user, job), Ok(Some(row)) if row.status.is_terminal());
        // Without a runtime the process is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if has_ended {
            drop(runtime.spawn(async move {
                if let Err(error) = app.store.delete(user, job).await {
                    tracing::warn!(%job, %error, "the job of a response that is not stored was not deleted");
                }
            }));
        }
    }
}
