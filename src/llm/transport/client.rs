//! The HTTP client that all providers share. It follows no redirects and uses no proxy.

use crate::net::{CallSlot, Lookups, NetClient, SystemNames, Tls, client_config, connector};
use std::sync::Arc;
use ureq::Agent;

/// Longest response head, bytes.
const HEADER_BYTES: usize = 24 * 1024;
/// Read buffer of a connection, bytes; a head must fit.
const INPUT_BYTES: usize = 32 * 1024;
/// Write buffer of a connection, bytes.
const OUTPUT_BYTES: usize = 16 * 1024;

/// A client without timeouts of `ureq`: each call brings its own.
pub(crate) fn client() -> NetClient {
    let lookups = Lookups::new(Arc::new(SystemNames));
    NetClient::new(move |slot, tls| agent(&lookups, slot, tls))
}

fn agent(lookups: &Lookups, slot: &CallSlot, tls: &Tls) -> Agent {
    let config = client_config()
        // A compressing proxy holds small chunks back.
        .accept_encoding("identity")
        .max_response_header_size(HEADER_BYTES)
        .input_buffer_size(INPUT_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        .max_idle_connections(1)
        .max_idle_connections_per_host(1)
        .build();
    Agent::with_parts(config, connector(slot, tls), lookups.for_calls_in(slot))
}
