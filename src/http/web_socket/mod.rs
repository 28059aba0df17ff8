//! The WebSocket protocol (RFC 6455): the request that opens a connection, and the messages on it. The
//! frames are those of `tungstenite`.

mod counted_input;
pub(crate) mod handshake;
pub(crate) mod socket;
