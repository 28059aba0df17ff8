//! The protocol that a connection speaks behind a 101.

use crate::http::auth::RevocationSignal;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A protocol ends in this time once its caller has lost its access.
const END_TIME: Duration = Duration::from_secs(4);

/// A socket of any kind.
pub(crate) trait AnySocket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> AnySocket for IO {}

pub(crate) type UpgradedSocket = Box<dyn AnySocket>;

type Running = Pin<Box<dyn Future<Output = Option<UpgradedSocket>> + Send>>;

/// Speaks the protocol on a socket.
pub(crate) struct Upgrade {
    speak: Box<dyn FnOnce(UpgradedSocket, RevocationSignal) -> Running + Send>,
    signal: RevocationSignal,
}

impl Upgrade {
    /// The future returns the socket, unless it broke off. It ends when the caller of its signal loses its
    /// access.
    pub(crate) fn new<F>(
        signal: RevocationSignal,
        speak: impl FnOnce(UpgradedSocket, RevocationSignal) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Option<UpgradedSocket>> + Send + 'static,
    {
        Self { speak: Box::new(|socket, signal| Box::pin(speak(socket, signal))), signal }
    }

    pub(crate) async fn run(self, socket: UpgradedSocket) -> Option<UpgradedSocket> {
        let Self { speak, mut signal } = self;
        let speaking = speak(socket, signal.clone());
        tokio::select! {
            rest = speaking => rest,
            () = async { signal.revoked().await; tokio::time::sleep(END_TIME).await } => None,
        }
    }
}
