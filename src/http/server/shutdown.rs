//! Stages of the shutdown, and the two ends of the channel that announces them.

use tokio::sync::watch;

/// Stages of the shutdown, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownStage {
    /// Serving.
    Open,
    /// The listener is closed; running requests and streams continue.
    Draining,
    /// Streams end with a `retry:` line; responses held by `?wait=` are sent.
    Closing,
    /// Remaining connections are cut off.
    Aborting,
}

/// The sending end: moves the server from stage to stage.
#[derive(Debug)]
pub struct ShutdownSender(watch::Sender<ShutdownStage>);

impl ShutdownSender {
    /// Both ends, at [`ShutdownStage::Open`].
    pub fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(ShutdownStage::Open);
        (Self(sender), Shutdown(receiver))
    }

    /// Moves on to `stage`. An earlier stage is ignored.
    pub fn advance(&self, stage: ShutdownStage) {
        self.0.send_if_modified(|now| {
            let rises = stage > *now;
            if rises {
                *now = stage;
            }
            rises
        });
    }
}

/// The receiving end.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<ShutdownStage>);

impl Shutdown {
    /// The current stage.
    pub fn stage(&self) -> ShutdownStage {
        *self.0.borrow()
    }

    /// Returns once `stage` is reached; never if the sender is dropped before.
    pub async fn reached(&mut self, stage: ShutdownStage) {
        if self.0.wait_for(|now| *now >= stage).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutdown_stages_only_advance() {
        let (stages, shutdown) = ShutdownSender::new();
        stages.advance(ShutdownStage::Closing);
        stages.advance(ShutdownStage::Draining);
        assert_eq!(shutdown.stage(), ShutdownStage::Closing);
    }
}
