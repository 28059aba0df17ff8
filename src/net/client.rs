//! The HTTP client of models and web tools: a pool of `ureq` agents, each of which serves one call at a time.

use super::call::{CallSlot, CallTimeouts};
use super::socket::Tls;
use crate::ports::CancelToken;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

/// Agents that are kept for later calls, each with at most one idle connection and its buffers of 48 KiB.
/// More than most servers have workers: to a near provider a new connection costs more than the call.
const IDLE_AGENTS: usize = 128;

/// Settings of every client that calls out of this process. A status is an answer. Redirects are not
/// followed: one could carry secrets to another host, or lead to an address that nobody has checked.
pub(crate) fn client_config() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
}

type BuildAgent = dyn Fn(&CallSlot, &Tls) -> Agent + Send + Sync;

/// Makes calls that end within a second of their cancel token.
pub(crate) struct NetClient {
    build: Box<BuildAgent>,
    tls: Tls,
    /// The agents without a call, the last one used at the end.
    idle: Mutex<Vec<PooledAgent>>,
}

struct PooledAgent {
    agent: Agent,
    slot: CallSlot,
    /// The host of its last call, to which it may have a connection.
    host: String,
}

impl NetClient {
    /// A client of agents that `build` makes. Connector and resolver of an agent must use the given slot, and
    /// the agent must keep at most one idle connection.
    pub(crate) fn new(build: impl Fn(&CallSlot, &Tls) -> Agent + Send + Sync + 'static) -> Self {
        Self { build: Box::new(build), tls: Tls::default(), idle: Mutex::default() }
    }

    /// Begins a call. It must outlive the body of its response. An idle connection to `host` is used again.
    pub(crate) fn call(&self, host: &str, cancel: &CancelToken, timeouts: CallTimeouts) -> NetCall<'_> {
        let (agent, slot) = self.take(host).unwrap_or_else(|| {
            let slot = CallSlot::default();
            ((self.build)(&slot, &self.tls), slot)
        });
        slot.begin(cancel, timeouts);
        NetCall { client: self, agent, slot, host: host.to_owned() }
    }

    /// An agent that was last used for this host, or the oldest one when the pool is full.
    fn take(&self, host: &str) -> Option<(Agent, CallSlot)> {
        let mut idle = self.lock();
        let at = idle.iter().rposition(|pooled| pooled.host == host);
        let at = at.or_else(|| (idle.len() >= IDLE_AGENTS).then_some(0))?;
        let pooled = idle.remove(at);
        Some((pooled.agent, pooled.slot))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PooledAgent>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for NetClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetClient").field("idle_agents", &self.lock().len()).finish_non_exhaustive()
    }
}

/// A call in progress. Its agent returns to the pool when this is dropped.
pub(crate) struct NetCall<'a> {
    client: &'a NetClient,
    agent: Agent,
    slot: CallSlot,
    host: String,
}

impl NetCall<'_> {
    /// The agent that makes the call's requests.
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The state of the call.
    pub(crate) fn slot(&self) -> &CallSlot {
        &self.slot
    }
}

impl Drop for NetCall<'_> {
    fn drop(&mut self) {
        self.slot.end();
        let mut idle = self.client.lock();
        if idle.len() < IDLE_AGENTS {
            let (agent, slot, host) = (self.agent.clone(), self.slot.clone(), std::mem::take(&mut self.host));
            idle.push(PooledAgent { agent, slot, host });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallEnd, Lookups, NameSource};
    use super::*;
    use crate::ports::{CancelReason, Clock};
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use ureq::http::Uri;

    /// Each reading moves it on by 100 ms.
    #[derive(Default)]
    struct SteppingClock(AtomicU64);

    impl Clock for SteppingClock {
        fn now_ms(&self) -> u64 {
            self.monotonic_ms()
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.fetch_add(100, Ordering::SeqCst)
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    #[derive(Debug)]
    struct HangingNames;

    impl NameSource for HangingNames {
        fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
            loop {
                std::thread::park();
            }
        }
    }

    const TIMEOUTS: CallTimeouts = CallTimeouts {
        connect: Duration::from_secs(1),
        dial: Duration::from_secs(1),
        idle: Duration::from_secs(9),
        stall: Duration::from_secs(45),
    };

    /// Why a lookup that hangs was abandoned.
    fn hanging_lookup(slot: &CallSlot) -> Option<CallEnd> {
        let lookups = Lookups::new(Arc::new(HangingNames)).for_calls_in(slot);
        let found = lookups.all(&Uri::from_static("http://a.test/"));
        CallEnd::of(&found.expect_err("nothing is found").into_io())
    }

    fn client() -> NetClient {
        NetClient::new(|_, _| Agent::new_with_defaults())
    }

    #[test]
    fn a_hanging_lookup_ends_with_its_timeout_or_its_cancel() {
        let (client, cancel) = (client(), CancelToken::new(Arc::new(SteppingClock::default())));
        let call = client.call("a.test", &cancel, TIMEOUTS);
        assert_eq!(hanging_lookup(call.slot()), Some(CallEnd::ConnectTimeout));
        cancel.cancel(CancelReason::Cancelled);
        assert_eq!(hanging_lookup(call.slot()), Some(CallEnd::Cancelled));
    }

    #[test]
    fn a_slot_without_a_call_gets_no_network() {
        assert_eq!(hanging_lookup(&CallSlot::default()), Some(CallEnd::Cancelled));
        let client = client();
        let slot = {
            let cancel = CancelToken::new(Arc::new(SteppingClock::default()));
            client.call("a.test", &cancel, TIMEOUTS).slot().clone()
        };
        assert_eq!(hanging_lookup(&slot), Some(CallEnd::Cancelled), "the call has ended");
    }

    #[test]
    fn an_agent_serves_one_call_at_a_time_and_the_next_one_to_its_host() {
        let (client, cancel) = (client(), CancelToken::new(Arc::new(SteppingClock::default())));
        let same = |one: &CallSlot, other: &CallSlot| one.shares_call_with(other);
        let (first, second) = (client.call("a", &cancel, TIMEOUTS), client.call("a", &cancel, TIMEOUTS));
        assert!(!same(first.slot(), second.slot()));
        let slot = first.slot().clone();
        drop(first);
        assert!(!same(&slot, client.call("b", &cancel, TIMEOUTS).slot()), "it may have a connection to a");
        assert!(same(&slot, client.call("a", &cancel, TIMEOUTS).slot()));
    }

    #[test]
    fn p8_idle_agents_are_bounded() {
        let (client, cancel) = (client(), CancelToken::new(Arc::new(SteppingClock::default())));
        let calls: Vec<_> = (0..2 * IDLE_AGENTS).map(|_| client.call("a", &cancel, TIMEOUTS)).collect();
        drop(calls);
        assert_eq!(client.lock().len(), IDLE_AGENTS);
        drop(client.call("b", &cancel, TIMEOUTS));
        assert_eq!(client.lock().len(), IDLE_AGENTS);
    }
}
