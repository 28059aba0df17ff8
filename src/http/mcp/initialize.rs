//! `initialize`: the version of the protocol, and what this server has.

use super::message::RpcError;
use crate::http::request::typed;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The method.
pub(super) const METHOD: &str = "initialize";

/// The supported versions of the protocol, newest first. They differ in nothing that this server uses but
/// batches.
pub(in crate::http) const VERSIONS: [&str; 4] = [NEWEST, "2025-06-18", BATCHED[0], BATCHED[1]];

const NEWEST: &str = "2025-11-25";

/// The versions with batches, newest first. Clients of these do not name their version in a header.
pub(super) const BATCHED: [&str; 2] = ["2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "Tools that run programs do so in a sandbox without network. Their files stay in a project: that of \
    project_id, else the project 'mcp'. submit_job hands a task to an agent of this server and returns at once; wait_job waits for its \
    answer, job_events shows its steps. Resources are jobs and files of projects.";

#[derive(Deserialize)]
struct InitializeParams {
    #[serde(rename = "protocolVersion")]
    protocol_version: String,
}

/// The version of the client if it is supported, else the newest one: then the client decides.
pub(super) fn answer(params: &Map<String, Value>) -> Result<(&'static str, Value), RpcError> {
    let params: InitializeParams = typed::from_map(params.clone())?;
    let version = VERSIONS.into_iter().find(|version| *version == params.protocol_version).unwrap_or(NEWEST);
    let result = json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "nanoclaw", "title": "NanoClaw", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    });
    Ok((version, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_own_version_or_the_newest() {
        for (asked, given) in [("2025-06-18", "2025-06-18"), (NEWEST, NEWEST), ("2099-01-01", NEWEST)] {
            let params = Map::from_iter([("protocolVersion".to_owned(), json!(asked))]);
            assert_eq!(answer(&params).expect("a result").0, given);
        }
        assert!(answer(&Map::new()).is_err(), "the version is needed");
    }
}
