//! Name lookups that check every address. The connection goes to the checked addresses, so a name that
//! resolves to others later (DNS rebinding) gains nothing.

use super::destination::refusal;
use crate::domain::address::AddressPolicy;
use crate::net::{CallSlot, Lookups, NameSource, host_of, is_own_address};
use std::net::SocketAddr;
use std::sync::Arc;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Finds addresses and refuses names with an address that the policy does not permit.
#[derive(Debug)]
pub(super) struct CheckedResolver {
    /// `None`: every address is permitted.
    policy: Option<AddressPolicy>,
    lookups: Lookups,
}

impl CheckedResolver {
    pub(super) fn new(policy: Option<AddressPolicy>, names: Arc<dyn NameSource>) -> Self {
        Self { policy, lookups: Lookups::new(names) }
    }

    /// The same resolver for the calls in `slot`.
    pub(super) fn for_calls_in(&self, slot: &CallSlot) -> Self {
        Self { policy: self.policy.clone(), lookups: self.lookups.for_calls_in(slot) }
    }
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let all = self.lookups.all(uri)?;
        let is_permitted = |address: &SocketAddr| {
            let ip = address.ip();
            self.policy.as_ref().is_none_or(|policy| policy.permits_peer(ip, is_own_address(ip)))
        };
        // A name with permitted and forbidden addresses is an attack on such checks.
        if !all.iter().all(is_permitted) {
            return Err(ureq::Error::Other(Box::new(refusal(host_of(uri)))));
        }
        self.lookups.first(all)
    }
}
