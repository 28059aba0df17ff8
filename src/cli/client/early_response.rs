//! Reads a response that comes before the upload is complete: a server that refuses an upload stops reading,
//! and its response must not be lost.

use std::io::ErrorKind;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Wraps the transport of the connector before it.
#[derive(Debug)]
pub(crate) struct EarlyResponseConnector;

impl<In: Transport> Connector<In> for EarlyResponseConnector {
    type Out = EarlyResponse<In>;

    fn connect(
        &self,
        _details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<EarlyResponse<In>>, ureq::Error> {
        Ok(chained.map(|inner| EarlyResponse { inner, is_write_closed: false }))
    }
}

/// A transport that still reads after the server has stopped reading.
#[derive(Debug)]
pub(crate) struct EarlyResponse<T> {
    inner: T,
    /// The server accepts no more data.
    is_write_closed: bool,
}

impl<T: Transport> Transport for EarlyResponse<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        if self.is_write_closed {
            return Ok(());
        }
        match self.inner.transmit_output(amount, timeout) {
            Err(ureq::Error::Io(error))
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
            {
                self.is_write_closed = true;
                Ok(())
            }
            result => result,
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        Transport::await_input(&mut self.inner, timeout)
    }

    fn is_open(&mut self) -> bool {
        !self.is_write_closed && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
