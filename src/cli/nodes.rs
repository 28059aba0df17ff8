//! `nanoclaw nodes`: the nodes that share the database of `store.url`.

use super::admin::text;
use super::error::CliError;
use super::store_target::{LocatedStore, StoreTarget};
use super::terminal::Terminal;
use crate::app::database_options;
use crate::config::Config;
use crate::http::NodesResponse;
use crate::ports::Clock;
use crate::store::StoreLocation;
use crate::store::postgres::read_cluster;
use serde_json::Value;

const HEADER: &str = "NODE  NAME                     STATE  VERSION   LAYOUT  UP       BEAT     JOBS";

#[derive(Debug, clap::Args)]
pub(crate) struct NodesArgs {
    /// Print the nodes as JSON
    #[arg(long)]
    json: bool,
}

/// The nodes of a database, or of the server that has the store; a file has none.
pub(crate) fn nodes(
    target: &StoreTarget,
    load: impl FnOnce() -> Result<Config, CliError>,
    clock: &dyn Clock,
    args: &NodesArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let answer = match target {
        StoreTarget::Server(client) => client.get("/v1/nodes")?,
        StoreTarget::Store(LocatedStore { location: StoreLocation::File(_), .. }) => Value::Null,
        StoreTarget::Store(_) => read_database(&load()?)?,
    };
    if args.json {
        return Ok(terminal.line(&answer.to_string())?);
    }
    let nodes = answer.get("data").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if nodes.is_empty() {
        terminal.info("there are no nodes: the store is a file that one server has open, or no server runs");
        return Ok(());
    }
    terminal.line(HEADER)?;
    let now_s = clock.now_ms() / 1_000;
    nodes.iter().try_for_each(|node| terminal.line(&describe(node, now_s)))?;
    for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        terminal.info(warning.as_str().unwrap_or_default());
    }
    Ok(())
}

fn read_database(config: &Config) -> Result<Value, CliError> {
    let Some(url) = &config.store.url else { return Ok(Value::Null) };
    let view = read_cluster(&database_options(config, url))
        .map_err(|error| CliError::failed(error.to_string()).hint("see also: nanoclaw doctor"))?;
    serde_json::to_value(NodesResponse::new(view, None)).map_err(|error| CliError::failed(error.to_string()))
}

/// One line; `*` marks the node that answers.
fn describe(node: &Value, now_s: u64) -> String {
    let number = |name: &str| node.get(name).and_then(Value::as_u64);
    let mark = if node.get("is_self") == Some(&Value::Bool(true)) { "*" } else { " " };
    let up_s = number("started_at").map(|started_s| now_s.saturating_sub(started_s));
    let beat = number("beat_age_ms").map_or_else(|| "-".to_owned(), |age_ms| format!("{age_ms} ms"));
    format!(
        "{:>4}{mark} {:<24} {:<6} {:<9} {:<7} {:<8} {beat:<8} {}",
        number("id").unwrap_or_default(),
        text(node, "name"),
        text(node, "state"),
        text(node, "version"),
        number("layout").unwrap_or_default(),
        up_s.map_or_else(String::new, duration),
        number("jobs").unwrap_or_default(),
    )
}

/// A time in its largest unit.
fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let node = json!({
            "id": 12, "name": "alpha", "state": "live", "is_self": true, "version": "0.1.0", "layout": 11,
            "started_at": 1_000, "beat_age_ms": 340, "lease_ms": 14_660, "jobs": 3,
        });
        let line = describe(&node, 4_600);
        assert_eq!(line, "  12* alpha                    live   0.1.0     11      60m      340 ms   3");
        for (column, value) in [
            ("NAME", "alpha"),
            ("STATE", "live"),
            ("VERSION", "0.1.0"),
            ("LAYOUT", "11"),
            ("UP", "60m"),
            ("BEAT", "340"),
            ("JOBS", "3"),
        ] {
            let place = HEADER.find(column).expect("a column");
            assert!(line[place..].starts_with(value), "{column}: {line}");
        }
    }
}
