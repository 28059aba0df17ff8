//! The one HTTP client that all calls share. Owns its settings; refuses redirects, proxies and content codings.

use super::tether::CallTether;
use crate::net::{Lookups, SystemNames, connector};
use std::sync::Arc;
use ureq::Agent;
use ureq::config::Config;

/// The longest head of an answer, bytes.
const HEADER_BYTES: usize = 24 * 1024;
/// Read buffer of a connection, bytes; a head must fit.
const INPUT_BYTES: usize = 32 * 1024;
/// Write buffer of a connection, bytes.
const OUTPUT_BYTES: usize = 16 * 1024;
/// Idle connections kept for the next call.
const IDLE_CONNECTIONS: usize = 32;

/// A client without timeouts of its own: the tether ends every wait.
pub(crate) fn agent() -> Agent {
    let config = Config::builder()
        .http_status_as_error(false)
        // A redirected POST would carry the key to another host.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
        // A compressing proxy holds small chunks back.
        .accept_encoding("identity")
        .max_response_header_size(HEADER_BYTES)
        .input_buffer_size(INPUT_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        .max_idle_connections(IDLE_CONNECTIONS)
        .max_idle_connections_per_host(IDLE_CONNECTIONS)
        .build();
    let resolver = Lookups::new(&CallTether, Arc::new(SystemNames));
    Agent::with_parts(config, connector(&CallTether), resolver)
}
