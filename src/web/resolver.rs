//! Name lookups that end at the fence. Every address of a name is checked, and the connection goes to those very addresses:
//! a name that leads elsewhere when it is asked again (DNS rebinding) gains nothing. Refuses to cache.

use super::destination::refusal;
use super::tether::RequestTether;
use crate::domain::address::AddressPolicy;
use crate::net::{Lookups, Names, host_of};
use std::net::SocketAddr;
use std::sync::Arc;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Finds addresses and refuses those that the policy does not permit.
#[derive(Debug)]
pub(super) struct CheckedResolver {
    /// `None`: every address may be called.
    policy: Option<AddressPolicy>,
    lookups: Lookups,
}

impl CheckedResolver {
    pub(super) fn new(policy: Option<AddressPolicy>, names: Arc<dyn Names>) -> Self {
        Self { policy, lookups: Lookups::new(&RequestTether, names) }
    }
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let all = self.lookups.all(uri)?;
        let is_permitted =
            |address: &SocketAddr| self.policy.as_ref().is_none_or(|policy| policy.permits(address.ip()));
        // A name that leads to both kinds is made to get past somebody's check.
        if !all.iter().all(is_permitted) {
            return Err(ureq::Error::Other(Box::new(refusal(host_of(uri)))));
        }
        self.lookups.first(all)
    }
}
