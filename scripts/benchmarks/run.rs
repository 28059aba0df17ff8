//! A run: facts about its machine, and its results. `--json` writes it. `--before`, `--compare` and
//! `--render` read it.

use crate::results::Results;
use serde_json::{Map, Value, json};
use std::path::Path;

/// A finished run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Names and texts in display order.
    pub(crate) machine: Vec<(String, String)>,
    pub(crate) results: Results,
}

impl Run {
    /// Reads a file that `--json` wrote.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
        text.and_then(|text| Self::parse(&text)).map_err(|reason| format!("{}: {reason}", file.display()))
    }

    /// Figures that this program does not know are left out.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let run: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let no_results = || "it has no results; is it a file that --json wrote?".to_owned();
        let facts = run["machine"].as_object().ok_or_else(no_results)?;
        let machine = facts.iter().filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
        let mut results = Results::default();
        results.restore(run["figures"].as_array().ok_or_else(no_results)?);
        for peer in run["peers"].as_array().into_iter().flatten() {
            if let (Some(name), Some(version)) = (peer["name"].as_str(), peer["version"].as_str()) {
                results.record_version(name, version);
            }
        }
        Ok(Self { machine: machine.collect(), results })
    }

    pub(crate) fn json(&self) -> Value {
        let facts = self.machine.iter().map(|(name, text)| (name.clone(), json!(text)));
        let versions = self.results.peer_versions().iter();
        let peers: Value =
            versions.map(|(name, version)| json!({"name": name, "version": version})).collect();
        json!({"machine": facts.collect::<Map<_, _>>(), "peers": peers, "figures": self.results.json()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Work;

    #[test]
    fn a_run_survives_its_file() {
        let mut results = Results::default();
        results.record_with_note("sandbox.python", 2.0, "p99 3.00 ms");
        results.record_work("sandbox.python", Work { per_second: 500.0, cores: 0.5 });
        results.skip("sandbox.javascript", "no kernel");
        results.record_version("node", "v20");
        let run = Run { machine: vec![("cores".to_owned(), "2".to_owned())], results };
        let read = Run::parse(&run.json().to_string()).expect("a run");
        assert_eq!(read.json(), run.json());
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        for text in ["", "[]", "{}", r#"{"machine": {}}"#] {
            assert!(Run::parse(text).is_err(), "{text}");
        }
    }
}
