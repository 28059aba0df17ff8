//! Ends answers that are held or streamed when their caller loses its access: its account was disabled or
//! lost its role, its key was revoked or has expired, its session has ended. All handlers are held by
//! [`revocable`], and all bodies in pieces need a [`signal`], so that none can forget it.

use crate::http::auth::{self, ACCESS_LOST, Caller, CallerProof, RevocationSignal};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::HandlerResult;
use std::sync::Arc;
use std::time::Duration;

/// Callers are confirmed this often, and a request that takes so long is watched from then on: together less
/// than the 15 seconds that users are promised.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(5);

/// The signal for one answer to this caller. One task confirms each caller once for all its answers.
pub(crate) fn signal(context: &Arc<ServerContext>, caller: Caller) -> RevocationSignal {
    if matches!(caller.proof, CallerProof::Nobody | CallerProof::Server) {
        return RevocationSignal::NEVER;
    }
    let (signal, begins) = context.auth.watched.watch(caller);
    if begins {
        drop(tokio::spawn(confirm_while_watched(Arc::clone(context))));
    }
    signal
}

/// Waits for the answer of a handler. A caller that loses its access meanwhile gets a 401, and the handler is
/// dropped, as if its client had left.
pub(crate) async fn revocable(
    context: &Arc<ServerContext>,
    caller: Caller,
    mut handling: impl Future<Output = HandlerResult> + Unpin,
) -> HandlerResult {
    if let Ok(handled) = tokio::time::timeout(CONFIRM_INTERVAL, &mut handling).await {
        return handled;
    }
    let mut signal = signal(context, caller);
    tokio::select! {
        biased;
        handled = handling => handled,
        () = signal.revoked() => Err(ApiError::Unauthorized(ACCESS_LOST)),
    }
}

async fn confirm_while_watched(context: Arc<ServerContext>) {
    loop {
        tokio::time::sleep(CONFIRM_INTERVAL).await;
        let callers = context.auth.watched.watched();
        if callers.is_empty() {
            return;
        }
        let confirming = Arc::clone(&context);
        // A panic leaves the callers to the next round.
        let confirmed = context.app.blocking(Caller::NOBODY.user, move || {
            for caller in callers {
                confirm(&confirming, caller);
            }
        });
        drop(confirmed.await);
    }
}

/// A store that cannot answer now is asked again in the next round: answers go on while a database is away.
fn confirm(context: &ServerContext, caller: Caller) {
    match auth::confirm(context, caller) {
        Err(ApiError::Unauthorized(_)) => context.auth.watched.revoke(caller),
        Err(_) => {}
        Ok(()) => context.auth.record_open(caller, context.app.clock.monotonic_ms()),
    }
}
