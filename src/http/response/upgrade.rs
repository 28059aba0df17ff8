//! The protocol that a connection speaks behind a 101.

use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// A socket of any kind.
pub(crate) trait AnySocket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> AnySocket for IO {}

pub(crate) type UpgradedSocket = Box<dyn AnySocket>;

type Running = Pin<Box<dyn Future<Output = Option<UpgradedSocket>> + Send>>;

/// Speaks the protocol on a socket.
pub(crate) struct Upgrade(Box<dyn FnOnce(UpgradedSocket) -> Running + Send>);

impl Upgrade {
    /// The future returns the socket, unless it broke off.
    pub(crate) fn new<F>(speak: impl FnOnce(UpgradedSocket) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Option<UpgradedSocket>> + Send + 'static,
    {
        Self(Box::new(|socket| Box::pin(speak(socket))))
    }

    pub(crate) fn run(self, socket: UpgradedSocket) -> Running {
        (self.0)(socket)
    }
}
