//! Packets with descriptors over a unix socket pair, between server, broker and zygotes.
//!
//! One packet is one message in JSON. Received descriptors are closed on exec.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message: less than the default buffer of a socket, far more than any request needs.
pub(crate) const MAX_PACKET_BYTES: usize = 64 * 1024;
/// The most descriptors in one packet.
pub(crate) const MAX_DESCRIPTORS: usize = 8;

/// A received packet.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The encoded message.
    pub bytes: Vec<u8>,
    /// The descriptors, in the sender's order.
    pub descriptors: Vec<OwnedFd>,
}

impl Packet {
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> io::Result<T> {
        serde_json::from_slice(&self.bytes).map_err(io::Error::from)
    }
}

/// Two connected ends. Both close on exec.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one packet.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_PACKET_BYTES || descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether sending failed because the other end is closed.
pub(crate) fn is_disconnected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Receives one packet; `None` after the other end is closed.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> io::Result<Option<Packet>> {
    // Asks for the length first: most packets are short, and a buffer of the maximal size would be zeroed
    // each time.
    let peek_flags = flags | RecvFlags::PEEK | RecvFlags::TRUNC;
    let length = loop {
        match rustix::net::recv(&socket, &mut [0; 1], peek_flags) {
            Ok((_, length)) => break length,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut bytes = vec![0; length.clamp(1, MAX_PACKET_BYTES)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(&socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if received == 0 {
        return Ok(None);
    }
    bytes.truncate(received);
    Ok(Some(Packet { bytes, descriptors }))
}

/// Whether the other end is closed or shut down for writing. Only for sockets that never receive a message.
pub(crate) fn is_peer_closed(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PEER_CLOSED)];
    let no_wait = Timespec::try_from(Duration::ZERO).ok();
    matches!(rustix::event::poll(&mut polled, no_wait.as_ref()), Ok(ready) if ready > 0)
}

/// The poll event of such a socket.
pub(crate) const PEER_CLOSED: PollFlags = PollFlags::RDHUP;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_completely_with_its_descriptors() {
        let (socket, peer) = socket_pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send(socket.as_fd(), &vec!["x"; 1_000], &[file.as_fd(), socket.as_fd()]).unwrap();
        send(socket.as_fd(), &2, &[]).unwrap();
        drop(socket);
        let packet = receive(&peer, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!(packet.decode::<Vec<String>>().unwrap().len(), 1_000);
        assert_eq!(packet.descriptors.len(), 2);
        drop(packet);
        let packet = receive(&peer, RecvFlags::empty()).unwrap().unwrap();
        assert_eq!((packet.decode::<i32>().unwrap(), packet.descriptors.len()), (2, 0));
        assert!(receive(&peer, RecvFlags::empty()).unwrap().is_none(), "the other end is closed");
    }

    #[test]
    fn a_closed_peer_is_detected() {
        let (socket, peer) = socket_pair().unwrap();
        assert!(!is_peer_closed(&socket));
        send(socket.as_fd(), &1, &[]).unwrap();
        rustix::net::shutdown(&peer, rustix::net::Shutdown::Write).unwrap();
        assert!(is_peer_closed(&socket));
        assert!(receive(&peer, RecvFlags::empty()).unwrap().is_some(), "it still receives");
        let (socket, peer) = socket_pair().unwrap();
        drop(peer);
        assert!(is_peer_closed(&socket));
    }

    #[test]
    fn a_message_over_the_packet_size_is_refused() {
        let (socket, _other) = socket_pair().unwrap();
        assert!(send(socket.as_fd(), &"x".repeat(MAX_PACKET_BYTES), &[]).is_err());
    }
}
