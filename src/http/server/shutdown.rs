//! Shutdown as a parameter. Owns the stages and their order; refuses signals and deadlines (the composition root has them).

use tokio::sync::watch;

/// How far the shutdown has come. Stages only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownStage {
    /// Serving.
    Open,
    /// Nobody new is let in; running requests and streams go on.
    Draining,
    /// Streams end with a `retry:` line, held replies are sent as they stand.
    Closing,
    /// Whatever is still connected is cut off.
    Aborting,
}

/// The composition root's end: moves the server from stage to stage.
#[derive(Debug)]
pub struct ShutdownSender(watch::Sender<ShutdownStage>);

impl ShutdownSender {
    /// Both ends, at [`ShutdownStage::Open`].
    pub fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(ShutdownStage::Open);
        (Self(sender), Shutdown(receiver))
    }

    /// Goes on to `stage`; going back is ignored.
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

/// The server's end.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<ShutdownStage>);

impl Shutdown {
    /// How far it has come.
    pub fn stage(&self) -> ShutdownStage {
        *self.0.borrow()
    }

    /// Returns once `stage` is reached; never, when the other end is gone before.
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
    fn stages_only_rise() {
        let (stages, shutdown) = ShutdownSender::new();
        stages.advance(ShutdownStage::Closing);
        stages.advance(ShutdownStage::Draining);
        assert_eq!(shutdown.stage(), ShutdownStage::Closing);
    }
}
