//! The set-up invite of a server without accounts. The first account is the administrator's and needs this
//! invite. Neither the address of the server nor `registration` changes that.

use super::control_file::address;
use super::error::AppError;
use super::secret_files::shared_session_key;
use super::system::SystemEntropy;
use crate::config::Config;
use crate::domain::account::AuthMode;
use crate::engine::EnginePorts;
use crate::http::BoundAddress;
use crate::http::setup_invite::{SetupInviteResponse, generate_setup_invite, setup_code};
use crate::ports::{AccountError, Clock, Entropy, NodeStore, StoreError, ValidSetupInvite};
use std::sync::Arc;

/// The invite for a server that starts: the one in force, so that a restart and other nodes of the store show
/// the same; `None` if nobody needs it.
pub(super) fn at_start(
    config: &Config,
    ports: &EnginePorts,
    store: &dyn NodeStore,
    session_key: &[u8],
    bound: &BoundAddress,
) -> Result<Option<SetupInviteResponse>, AppError> {
    let read = |error: StoreError| AppError::SetupInvite(error.into());
    if config.auth_mode == AuthMode::Single || !store.has_no_accounts().map_err(read)? {
        return Ok(None);
    }
    let (new, code) = generate_setup_invite(session_key, ports.clock.now_ms());
    let stored = store.store_setup_invite(new, ValidSetupInvite::Kept).wait();
    let stored = stored.and_then(|kept| match setup_code(session_key, &kept) {
        Some(code) => Ok((kept, code)),
        // The session key is a new one.
        None => Ok((store.store_setup_invite(new, ValidSetupInvite::Replaced).wait()?, code)),
    });
    match stored {
        Ok((invite, code)) => {
            let console_url = console_url(config, Some(&address(bound)));
            Ok(Some(SetupInviteResponse::new(&code, console_url.as_deref(), invite.expires_at_ms)))
        }
        // Another node has made one meanwhile.
        Err(AccountError::AccountExists) => Ok(None),
        Err(error @ AccountError::Store(StoreError::Full | StoreError::LowDisk { .. })) => {
            tracing::warn!(%error, "cannot store the set-up invite for the first administrator");
            Ok(None)
        }
        Err(error) => Err(AppError::SetupInvite(error)),
    }
}

/// Replaces the set-up invite in a store that no server has open.
pub fn renew_setup_invite(
    config: &Config,
    store: &dyn NodeStore,
    clock: &dyn Clock,
) -> Result<SetupInviteResponse, AppError> {
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let session_key = shared_session_key(&config.data_dir, &entropy, store).map_err(AppError::SessionKey)?;
    let (new, code) = generate_setup_invite(&session_key, clock.now_ms());
    let stored = store.store_setup_invite(new, ValidSetupInvite::Replaced).wait();
    let invite = stored.map_err(AppError::SetupInvite)?;
    let console_url = console_url(config, config.listen.client_address().as_deref());
    Ok(SetupInviteResponse::new(&code, console_url.as_deref(), invite.expires_at_ms))
}

/// Where people open the console: under the name that a proxy passes on, else at this address of the server.
/// `None` without a console, or for a unix socket.
pub(super) fn console_url(config: &Config, address: Option<&str>) -> Option<String> {
    if config.console { named_url(&config.allowed_hosts, address) } else { None }
}

fn named_url(allowed_hosts: &[String], address: Option<&str>) -> Option<String> {
    let own = || address.filter(|address| address.starts_with("http://")).map(str::to_owned);
    let url = allowed_hosts.first().map(|host| format!("https://{host}")).or_else(own)?;
    Some(format!("{url}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_opened_under_the_name_that_the_proxy_passes_on() {
        let named = vec!["nano.example.org".to_owned(), "other.example.org:8443".to_owned()];
        let own = "http://127.0.0.1:8787";
        for (hosts, address, expected) in [
            (&named, Some(own), Some("https://nano.example.org/")),
            (&named, Some("unix:/run/nanoclaw.sock"), Some("https://nano.example.org/")),
            (&named, None, Some("https://nano.example.org/")),
            (&vec![], Some(own), Some("http://127.0.0.1:8787/")),
            (&vec![], Some("unix:/run/nanoclaw.sock"), None),
            (&vec![], None, None),
        ] {
            assert_eq!(named_url(hosts, address).as_deref(), expected, "{hosts:?} {address:?}");
        }
    }
}
