//! The slots of open sessions, and the broker of sessions that use the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::broker::BrokerClient;
use crate::error::SandboxError;
use crate::level_verdict::LevelVerdict;
use crate::options::SandboxOptions;

#[derive(Debug)]
pub(crate) struct SessionRegistry {
    open: Arc<AtomicUsize>,
    /// Used where commands have no network: their broker has left the network permanently.
    pub(crate) online_broker: BrokerClient,
    /// Whether the policy holds in that broker, too.
    pub(crate) online_verdict: LevelVerdict,
}

/// One slot, released when dropped.
#[derive(Debug)]
pub(super) struct SessionSlot(Arc<AtomicUsize>);

impl SessionRegistry {
    pub(crate) fn new(options: &SandboxOptions) -> Self {
        Self {
            open: Arc::default(),
            online_broker: BrokerClient::new(&options.child_exe, true),
            online_verdict: LevelVerdict::default(),
        }
    }

    pub(super) fn take_slot(&self, max: usize) -> Result<SessionSlot, SandboxError> {
        let one_more = |open| if open < max { Some(open + 1) } else { None };
        match self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(SessionSlot(Arc::clone(&self.open))),
            Err(_) => Err(SandboxError::TooManySessions { most: max }),
        }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
