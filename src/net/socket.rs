//! TCP for `ureq`, in slices, and TLS over it. The call is checked before each step and after each slice, so
//! neither silence nor a drip of bytes outlives it.

use super::call::{CallEnd, CallSlot, SLICE};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, ipproto, recv, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};

/// The least time for one address.
const MIN_SHARE: Duration = Duration::from_millis(250);

/// Output is gathered up to this size, bytes: head and body of most requests.
const GATHERED_BYTES: usize = 16 * 1024;

/// The TLS configuration that all agents of a client share.
pub(crate) type Tls = Arc<RustlsConnector>;

/// Opens connections, plain or with TLS as the URL asks for it, for the calls in `slot`.
pub(crate) fn connector(slot: &CallSlot, tls: &Tls) -> impl Connector {
    TcpConnector(slot.clone()).chain(TlsConnector(Arc::clone(tls), slot.clone()))
}

/// Opens TCP connections to the addresses that the resolver returned.
#[derive(Debug)]
struct TcpConnector(CallSlot);

impl Connector for TcpConnector {
    type Out = NetSocket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<NetSocket>, ureq::Error> {
        let slot = &self.0;
        slot.connecting()?;
        let mut failure = ureq::Error::ConnectionFailed;
        let count = details.addrs.len();
        for (tried, address) in details.addrs.iter().enumerate() {
            let left = u32::try_from(count.saturating_sub(tried)).unwrap_or(1).max(1);
            let share = (slot.time_to_dial() / left).max(MIN_SHARE);
            match dial(slot, *address, share) {
                Ok(stream) => return Ok(Some(NetSocket::new(slot.clone(), stream, details))),
                Err(error) if CallEnd::of(&error) == Some(CallEnd::Cancelled) => return Err(error.into()),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }
}

/// Connects in slices: `SO_SNDTIMEO` ends each `connect` early, the kernel continues the handshake, and the
/// next `connect` waits for the same one.
fn dial(slot: &CallSlot, address: SocketAddr, share: Duration) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    set_socket_timeout(&socket, Timeout::Send, Some(SLICE))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SLICE))?;
    let wait = slot.wait()?;
    loop {
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::ISCONN) => break,
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {
                wait.check()?;
                if wait.elapsed()? >= share {
                    return Err(CallEnd::ConnectTimeout.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// An open connection.
#[derive(Debug)]
struct NetSocket {
    slot: CallSlot,
    stream: TcpStream,
    buffers: LazyBuffers,
    /// Output that is sent before the next wait for input. `ureq` writes a request's head and body one by
    /// one, and a server that gets both at once wakes up once.
    unsent: Vec<u8>,
}

impl NetSocket {
    fn new(slot: CallSlot, stream: TcpStream, details: &ConnectionDetails) -> Self {
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Self { slot, stream, buffers: LazyBuffers::new(input, output), unsent: Vec::new() }
    }

    fn flush(&mut self) -> Result<(), ureq::Error> {
        // Freed then: an idle connection holds no buffers.
        let unsent = std::mem::take(&mut self.unsent);
        let mut rest = unsent.as_slice();
        while !rest.is_empty() {
            let stream = &mut &self.stream;
            let sent = in_slices(&self.slot, &mut || stream.write(rest))?;
            if sent == 0 {
                return Err(io::Error::from(ErrorKind::WriteZero).into());
            }
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }
}

fn is_slice_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Repeats `step` until it succeeds, fails, or the call ends. A drip of bytes never reaches the end of a
/// slice, so the call is also checked before the first step.
fn in_slices(slot: &CallSlot, step: &mut dyn FnMut() -> io::Result<usize>) -> Result<usize, ureq::Error> {
    let wait = slot.wait()?;
    loop {
        match step() {
            Err(error) if is_slice_end(&error) => wait.check()?,
            result => return Ok(result?),
        }
    }
}

impl Transport for NetSocket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        self.unsent.extend_from_slice(self.buffers.output().get(..amount).unwrap_or_default());
        if self.unsent.len() >= GATHERED_BYTES { self.flush() } else { Ok(()) }
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        self.flush()?;
        let input = self.buffers.input_append_buf();
        let stream = &mut &self.stream;
        let amount = in_slices(&self.slot, &mut || stream.read(input))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let mut byte = [0_u8];
        let peeked = recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // An idle connection has nothing to read: an end of stream or unexpected bytes make it useless.
        matches!(peeked, Err(Errno::AGAIN))
    }
}

/// Wraps a connection in TLS where the URL asks for it, and ends the connect timeout.
#[derive(Debug)]
struct TlsConnector(Tls, CallSlot);

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

#[cfg(test)]
mod tests {
    use super::super::{CallTimeouts, Lookups, NetClient, SystemNames};
    use crate::app::system::SystemClock;
    use crate::ports::CancelToken;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Duration;
    use ureq::Agent;

    /// What a server reads first of a request with this body, and all of it.
    fn first_read(body: &str) -> (usize, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut buffer, mut whole) = (vec![0; 1 << 20], Vec::new());
            let first = stream.read(&mut buffer).expect("a request");
            whole.extend_from_slice(&buffer[..first]);
            while !whole.ends_with(b"end") {
                let count = stream.read(&mut buffer).expect("the rest");
                whole.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("an answer");
            (first, whole.len())
        });
        let lookups = Lookups::new(Arc::new(SystemNames));
        let client = NetClient::new(move |slot, tls| {
            let config = Agent::config_builder().build();
            Agent::with_parts(config, super::connector(slot, tls), lookups.for_calls_in(slot))
        });
        let second = Duration::from_secs(9);
        let timeouts = CallTimeouts { connect: second, dial: second, idle: second, stall: second };
        let cancel = CancelToken::new(Arc::new(SystemClock::new()));
        let call = client.call("127.0.0.1", &cancel, timeouts);
        let mut response = call.agent().post(&url).send(body).expect("an answer");
        assert_eq!(response.body_mut().read_to_string().expect("a text"), "ok");
        server.join().expect("the server")
    }

    #[test]
    fn head_and_body_of_a_request_are_sent_at_once() {
        let (first, whole) = first_read("{\"messages\": []} end");
        assert_eq!(first, whole);
        let (first, whole) = first_read(&format!("{}end", "x".repeat(300_000)));
        assert!(first < whole, "a long body goes out in parts");
    }
}
