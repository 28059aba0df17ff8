//! TCP for `ureq`, in slices, and TLS over it. Owns dialling, reading and writing; refuses to wait for the network
//! longer than a slice without asking the tether, so that neither silence nor a drip of bytes outlives a call.

use super::tether::{SLICE, Tether, Wait};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, ipproto, recv, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};

/// The fair share of an address is at least this.
const SHARE_MIN: Duration = Duration::from_millis(250);

/// Opens connections, plain or with TLS as the URL asks for it, whose waits end with the tether.
pub(crate) fn connector(tether: &'static dyn Tether) -> impl Connector {
    TcpConnector(tether).chain(TlsConnector(RustlsConnector::default(), tether))
}

/// Opens plain connections, to the addresses that were found and no others.
#[derive(Debug)]
struct TcpConnector(&'static dyn Tether);

impl Connector for TcpConnector {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, ureq::Error> {
        let tether = self.0;
        tether.connecting()?;
        let mut failure = ureq::Error::ConnectionFailed;
        let count = details.addrs.len();
        for (tried, address) in details.addrs.iter().enumerate() {
            let left = u32::try_from(count.saturating_sub(tried)).unwrap_or(1).max(1);
            let share = (tether.time_to_dial() / left).max(SHARE_MIN);
            match dial(tether, *address, share) {
                Ok(stream) => return Ok(Some(Socket::new(tether, stream, details))),
                Err(error) if tether.is_pulled(&error) => return Err(error.into()),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }
}

/// Connects in slices: `SO_SNDTIMEO` ends each `connect` early, the kernel goes on with the handshake meanwhile, and
/// the next `connect` waits on for the same one.
fn dial(tether: &'static dyn Tether, address: SocketAddr, share: Duration) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    set_socket_timeout(&socket, Timeout::Send, Some(SLICE))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SLICE))?;
    let wait = Wait::begin(tether)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::ISCONN) => break,
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {
                wait.check()?;
                if wait.so_far()? >= share {
                    return Err(tether.too_slow());
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
struct Socket {
    tether: &'static dyn Tether,
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl Socket {
    fn new(tether: &'static dyn Tether, stream: TcpStream, details: &ConnectionDetails) -> Self {
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Self { tether, stream, buffers: LazyBuffers::new(input, output) }
    }
}

fn is_slice_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Does `step` until it succeeds, fails, or the tether says stop. A drip of bytes never runs into the slice's end, so
/// the tether is asked before the first step as well.
fn in_slices(
    tether: &'static dyn Tether,
    step: &mut dyn FnMut() -> io::Result<usize>,
) -> Result<usize, ureq::Error> {
    let wait = Wait::begin(tether)?;
    loop {
        match step() {
            Err(error) if is_slice_end(&error) => wait.check()?,
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
            let sent = in_slices(self.tether, &mut || stream.write(rest))?;
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
        let amount = in_slices(self.tether, &mut || stream.read(input))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let mut byte = [0_u8];
        let peeked = recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // Idle and open means nothing to read; an end of stream or unasked bytes mean that it is of no use.
        matches!(peeked, Err(Errno::AGAIN))
    }
}

/// Wraps a connection in TLS where the URL asks for it, and ends the time for connecting.
#[derive(Debug)]
struct TlsConnector(RustlsConnector, &'static dyn Tether);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        plain: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let wrapped = self.0.connect(details, plain);
        self.1.connected();
        wrapped
    }
}
