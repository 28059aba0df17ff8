//! Name lookups that end at the operator's fence. The connection goes to the very addresses that were checked, so that a
//! name which resolves anew on each question (DNS rebinding) gains nothing. Refuses to cache.

use super::post::PostError;
use crate::domain::address::AddressPolicy;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Finds a receiver's addresses and keeps those that the policy permits.
#[derive(Debug)]
pub(super) struct GuardedResolver {
    pub(super) policy: AddressPolicy,
    pub(super) names: DefaultResolver,
}

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let mut permitted = self.empty();
        for address in found.iter().filter(|address| self.policy.permits(address.ip())) {
            permitted.push(*address);
        }
        match found.first() {
            Some(refused) if permitted.is_empty() => {
                Err(ureq::Error::Other(Box::new(PostError::Refused(refused.ip()))))
            }
            _ => Ok(permitted),
        }
    }
}
