//! Resolves which store or server a command speaks to, from the options of all commands.

use super::client::{self, ApiClient};
use super::command_line::{GlobalOptions, config_error};
use super::error::CliError;
use super::local_server::server_of;
use super::store_target::{LocatedStore, StoreTarget};
use crate::app::read_control_file;
use crate::config::{Config, ConfigError};

impl GlobalOptions {
    /// The store of a command that any server can answer: with `--data-dir` the one in that directory, else
    /// that of the named server, else the one of the configuration.
    pub(super) fn store_target(&self) -> Result<StoreTarget, CliError> {
        if let Some(client) = self.named_server()? {
            return Ok(StoreTarget::Server(client));
        }
        let located = match self.located_store() {
            Ok(located) => located,
            // The configuration of a service that runs here: its server is asked at the usual address.
            Err(ConfigError::Denied { .. }) if self.config.is_none() => {
                return self.client().map(StoreTarget::Server);
            }
            Err(error) => return Err(config_error(&error)),
        };
        let is_seen = self.data_dir.is_some() || located.is_seen();
        match located.held()? {
            // Nothing is named, and this user sees no store: the server of the configuration may have one.
            StoreTarget::Store(located) if !is_seen => {
                let client = self.client()?;
                let is_responding = client.is_responding().unwrap_or_default();
                Ok(if is_responding { StoreTarget::Server(client) } else { StoreTarget::Store(located) })
            }
            target => Ok(target),
        }
    }

    /// The store of a command that only the server with this store open can answer, or the command itself.
    pub(super) fn held_store(&self) -> Result<StoreTarget, CliError> {
        self.own_store()?.held()
    }

    /// The store of a command that reads it itself, whatever servers there are.
    pub(super) fn own_store(&self) -> Result<LocatedStore, CliError> {
        if let Some(server) = self.server.as_ref().filter(|_| self.is_server_named) {
            let message = format!("this command works on a store, not on the server {server}");
            let hint = "leave --server out, and name the store with --data-dir or --config";
            return Err(CliError::usage(message).hint(hint));
        }
        self.located_store().map_err(|error| config_error(&error))
    }

    /// A configuration is read only if no option names the directory.
    fn located_store(&self) -> Result<LocatedStore, ConfigError> {
        match &self.data_dir {
            Some(dir) => Ok(LocatedStore::in_directory(dir.clone())),
            None => Config::load_keyless(&self.sources(Vec::new())).map(|config| LocatedStore::of(&config)),
        }
    }

    /// Fails if the command line names two places.
    pub(super) fn check_places(&self) -> Result<(), CliError> {
        match (&self.data_dir, &self.server) {
            (Some(dir), Some(server)) if self.is_server_named => {
                let message = format!("--server {server} and --data-dir {} name two places", dir.display());
                Err(CliError::usage(message).hint("leave one of them out"))
            }
            _ => Ok(()),
        }
    }

    /// Fails if the command line names a place by an option of all commands that this one does not use.
    pub(super) fn refuse_places(&self, reason: &str) -> Result<(), CliError> {
        if self.is_server_named || self.data_dir.is_some() {
            return Err(CliError::usage(reason).hint("leave --server and --data-dir out"));
        }
        Ok(())
    }

    /// The server that the command line or the environment names, unless the command line names a directory;
    /// `None`: that of the directory or the configuration.
    pub(super) fn named_server(&self) -> Result<Option<ApiClient>, CliError> {
        let is_named = self.data_dir.is_none() && (self.server.is_some() || self.token.is_some());
        is_named.then(|| self.client()).transpose()
    }

    /// The server of a client command.
    pub(super) fn client(&self) -> Result<ApiClient, CliError> {
        ApiClient::new(&self.server_address()?, self.token.as_ref())
    }

    /// The named server, else that of the named directory, else the one of the configuration: where it
    /// listens, or, with port 0, where it wrote that it listens. A configuration that this user may not read
    /// stands for the default address.
    fn server_address(&self) -> Result<String, CliError> {
        if let Some(dir) = &self.data_dir {
            let none = || {
                CliError::failed(format!("no server runs with the data directory '{}'", dir.display()))
                    .hint("start one with 'nanoclaw serve', or name another place with --server")
            };
            return server_of(dir)?.map(|server| server.base().to_owned()).ok_or_else(none);
        }
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let config = match Config::load_keyless(&self.sources(Vec::new())) {
            Ok(config) => config,
            Err(ConfigError::Denied { .. }) if self.config.is_none() => {
                return Ok(client::DEFAULT_SERVER.to_owned());
            }
            Err(error) => return Err(config_error(&error)),
        };
        let written = || read_control_file(&config.data_dir).ok().flatten().map(|control| control.address);
        let address = config.listen.client_address().or_else(written);
        Ok(address.unwrap_or_else(|| client::DEFAULT_SERVER.to_owned()))
    }
}
