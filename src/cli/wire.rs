//! The connection of the client commands. Owns one thing: a server that says no before it has read a whole upload closes its
//! ear, and what it said is still read. Refuses to know what is said.

use std::io::ErrorKind;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Goes behind the connector that makes the connection.
#[derive(Debug)]
pub(super) struct Hearing;

impl<In: Transport> Connector<In> for Hearing {
    type Out = Heard<In>;

    fn connect(
        &self,
        _details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Heard<In>>, ureq::Error> {
        Ok(chained.map(|inner| Heard { inner, is_shut: false }))
    }
}

/// A connection whose answer outlives its upload.
#[derive(Debug)]
pub(super) struct Heard<T> {
    inner: T,
    /// The server takes nothing more.
    is_shut: bool,
}

impl<T: Transport> Transport for Heard<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        if self.is_shut {
            return Ok(());
        }
        match self.inner.transmit_output(amount, timeout) {
            Err(ureq::Error::Io(error))
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
            {
                self.is_shut = true;
                Ok(())
            }
            sent => sent,
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        Transport::await_input(&mut self.inner, timeout)
    }

    fn is_open(&mut self) -> bool {
        !self.is_shut && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
