//! TCP for `ureq`, in slices. Owns dialling, reading and writing; refuses to wait for the network longer than a slice
//! without asking the [`tether`], so that neither silence nor a drip of bytes outlives a request's time.

use super::tether::{self, SLICE};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The longest wait for one address to take a connection.
const DIAL_TIME: Duration = Duration::from_secs(10);
/// The least that each address of a name gets.
const SHARE_MIN: Duration = Duration::from_millis(300);

/// Opens plain connections, to the addresses that were checked and no others.
#[derive(Debug)]
pub(super) struct TcpConnector;

impl Connector for TcpConnector {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, ureq::Error> {
        let mut failure = ureq::Error::ConnectionFailed;
        let count = details.addrs.len();
        for (tried, address) in details.addrs.iter().enumerate() {
            let left = u32::try_from(count.saturating_sub(tried)).unwrap_or(1).max(1);
            let share = (tether::remaining().min(DIAL_TIME) / left).max(SHARE_MIN);
            match dial(*address, share) {
                Ok(stream) => return Ok(Some(Socket::new(stream, details))),
                Err(error) if tether::is_cut(&error) => return Err(error.into()),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }
}

/// Connects in slices: `SO_SNDTIMEO` ends each `connect` early, the kernel goes on with the handshake meanwhile, and the
/// next `connect` waits on for the same one.
fn dial(address: SocketAddr, share: Duration) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    set_socket_timeout(&socket, Timeout::Send, Some(SLICE))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SLICE))?;
    let begun = tether::remaining();
    loop {
        tether::check()?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::ISCONN) => break,
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {
                if begun.saturating_sub(tether::remaining()) >= share {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// An open connection; reads and writes end after a slice, and are taken up again while the tether allows it.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl Socket {
    fn new(stream: TcpStream, details: &ConnectionDetails) -> Self {
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Self { stream, buffers: LazyBuffers::new(input, output) }
    }
}

/// Does `step` until it succeeds, fails, or the tether says stop.
fn in_slices(mut step: impl FnMut() -> io::Result<usize>) -> Result<usize, ureq::Error> {
    loop {
        tether::check()?;
        match step() {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            result => return Ok(result?),
        }
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        let mut rest = self.buffers.output().get(..amount).unwrap_or_default();
        while !rest.is_empty() {
            let stream = &mut &self.stream;
            let sent = in_slices(|| stream.write(rest))?;
            if sent == 0 {
                return Err(io::Error::from(ErrorKind::WriteZero).into());
            }
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let input = self.buffers.input_append_buf();
        let stream = &mut &self.stream;
        let amount = in_slices(|| stream.read(input))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false // no connection is used twice
    }
}
