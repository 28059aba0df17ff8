//! The server on this machine that has a store open. It counts only if it holds the control key of the
//! store's directory, whatever listens at its address.

use super::client::ApiClient;
use super::error::CliError;
use crate::app::{ControlAddress, STORE_FILE, read_control_file};
use serde_json::Value;
use std::fs::{File, TryLockError};
use std::path::Path;

/// The server that runs with this data directory: it answers at the address in the control file and has the
/// key that stands there. `None`: there is none. Fails if a process has the store file open and is no server
/// that answers.
pub(crate) fn server_of(data_dir: &Path) -> Result<Option<ApiClient>, CliError> {
    let is_locked = is_locked(&data_dir.join(STORE_FILE));
    let control = match read_control_file(data_dir) {
        Ok(control) => control,
        Err(_) if !is_locked => None,
        Err(error) => {
            let message = format!(
                "a server has the store in '{}' open, and its control.json cannot be read: {error}",
                data_dir.display()
            );
            return Err(
                CliError::failed(message).hint("run this as the user of the server, or stop the server")
            );
        }
    };
    match control {
        Some(control) if is_locked => connect(&control).map(Some),
        // Nodes of a database lock no file. A killed server leaves its control file behind.
        Some(control) => Ok(connect(&control).ok()),
        None if is_locked => {
            let message = format!(
                "a process has the store in '{}' open, and its control.json is missing",
                data_dir.display()
            );
            Err(CliError::failed(message)
                .hint("a server may be starting or stopping: try again in a moment, or stop it; or name it with --server"))
        }
        None => Ok(None),
    }
}

/// Whether a process has locked the file. Does not wait.
fn is_locked(store: &Path) -> bool {
    File::open(store).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Connects to the server that wrote this control file.
fn connect(control: &ControlAddress) -> Result<ApiClient, CliError> {
    let client = ApiClient::new(&control.address, Some(&control.key))?;
    verify_server(&client)?;
    Ok(client)
}

/// Checks that the address in the control file still belongs to the server, before a password is sent: a
/// killed server leaves the file behind, and another program may listen there now.
fn verify_server(client: &ApiClient) -> Result<(), CliError> {
    let answer = client.get("/api/users?limit=1")?;
    if is_account_list(&answer) {
        return Ok(());
    }
    let message = "what answers at the address in control.json is not the server that holds the store";
    Err(CliError::failed(message).hint("the server may just be starting: try again in a moment"))
}

/// Whether this is a list of accounts as the server sends it.
fn is_account_list(answer: &Value) -> bool {
    answer.get("code").and_then(Value::as_u64) == Some(0)
        && answer.pointer("/data/items").is_some_and(Value::is_array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_password_is_sent_only_to_a_nanoclaw_server() {
        let of = |text: &str| is_account_list(&serde_json::from_str(text).expect("JSON"));
        assert!(of(r#"{"code":0,"message":"success","data":{"items":[],"next_cursor":null}}"#));
        for foreign in ["{}", "[]", "null", r#"{"code":401}"#, r#"{"code":0}"#, r#"{"data":{"items":[]}}"#] {
            assert!(!of(foreign), "{foreign}");
        }
    }
}
