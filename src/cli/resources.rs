//! `nanoclaw list`, `show`, `delete` and `output`: one table describes everything that the server keeps.

use super::client::ApiClient;
use super::client::address::path_segment;
use super::error::CliError;
use super::jobs::{self, render::cut};
use super::terminal::Terminal;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

/// A kind of things on the server.
struct Resource {
    /// Name on the command line.
    kind: &'static str,
    /// Start of its ids; empty for things without an id.
    prefix: &'static str,
    path: &'static str,
    /// Fields of a list line, as JSON pointers. Jobs have lines of their own.
    fields: &'static [&'static str],
}

const RESOURCES: [Resource; 10] = [
    Resource { kind: "jobs", prefix: "job_", path: "/v1/jobs", fields: &[] },
    Resource {
        kind: "conversations",
        prefix: "conv_",
        path: "/api/conversations",
        fields: &["/id", "/message_count", "/updated_at", "/title"],
    },
    Resource {
        kind: "projects",
        prefix: "proj_",
        path: "/api/projects",
        fields: &["/id", "/name", "/updated_at"],
    },
    Resource {
        kind: "schedules",
        prefix: "sched_",
        path: "/v1/schedules",
        fields: &["/id", "/next_run_at", "/paused", "/runs", "/name"],
    },
    Resource {
        kind: "batches",
        prefix: "batch_",
        path: "/v1/batches",
        fields: &["/id", "/status", "/request_counts/completed", "/request_counts/total"],
    },
    Resource {
        kind: "files",
        prefix: "file-",
        path: "/v1/files",
        fields: &["/id", "/purpose", "/bytes", "/filename"],
    },
    Resource {
        kind: "webhooks",
        prefix: "whd_",
        path: "/v1/webhooks",
        fields: &["/id", "/state", "/tries", "/url"],
    },
    Resource { kind: "tools", prefix: "", path: "/v1/tools", fields: &["/name", "/group", "/description"] },
    Resource { kind: "models", prefix: "", path: "/api/models", fields: &["/id", "/name"] },
    Resource {
        kind: "usage",
        prefix: "",
        path: "/v1/usage",
        fields: &["/date", "/model", "/jobs", "/total_tokens", "/cost_micros"],
    },
];

#[derive(Debug, clap::Args)]
pub(crate) struct ResourceListArgs {
    /// What to list
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(RESOURCES.iter().map(|resource| resource.kind)))]
    kind: String,
    /// Maximum number of lines, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ItemArgs {
    /// Its id; a conversation with a name of your own: conversations NAME
    #[arg(value_name = "ID", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The job's id, job_…
    job: String,
}

/// Lists things of a kind.
pub(crate) fn list(client: &ApiClient, args: &ResourceListArgs, terminal: &Terminal) -> Result<(), CliError> {
    let resource = named(&args.kind)?;
    let limit = if resource.prefix.is_empty() { String::new() } else { format!("?limit={}", args.limit) };
    let answer = data(client.get(&format!("{}{limit}", resource.path))?);
    if args.json {
        return Ok(terminal.line(&answer.to_string())?);
    }
    if resource.kind == "jobs" {
        return jobs::list::print(&answer, terminal);
    }
    let items = ["/items", "/data", ""].iter().find_map(|place| answer.pointer(place)?.as_array());
    let name = |field: &&str| field.rsplit('/').next().unwrap_or_default().to_uppercase();
    let mut rows: Vec<Vec<String>> = vec![resource.fields.iter().map(name).collect()];
    for item in items.into_iter().flatten() {
        rows.push(resource.fields.iter().map(|field| cell(field, item.pointer(field))).collect());
    }
    let columns = if terminal.shows_data() { terminal.columns() } else { usize::MAX };
    Ok(terminal.data(&table(&rows, columns))?)
}

/// Prints one thing as JSON.
pub(crate) fn show(client: &ApiClient, args: &ItemArgs, terminal: &Terminal) -> Result<(), CliError> {
    let found = data(client.get(&path(&args.words)?)?);
    let text = serde_json::to_string_pretty(&found).map_err(|error| CliError::failed(error.to_string()))?;
    Ok(terminal.line(&text)?)
}

/// Deletes one thing.
pub(crate) fn delete(client: &ApiClient, args: &ItemArgs, terminal: &Terminal) -> Result<(), CliError> {
    client.delete(&path(&args.words)?)?;
    terminal.info("deleted");
    Ok(())
}

/// Prints the answer of a job that has ended.
pub(crate) fn output(client: &ApiClient, args: &OutputArgs, terminal: &Terminal) -> Result<(), CliError> {
    let job = client.get(&format!("/v1/jobs/{}", path_segment(&args.job)?))?;
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    let (answer, status) = (text("output_text"), text("status"));
    if answer.is_empty() && status != "succeeded" {
        let hint = format!("see what it does, or why it ended: nanoclaw tail {}", args.job);
        return Err(CliError::failed(format!("the job is {status} and has no answer")).hint(hint));
    }
    Ok(terminal.data(&format!("{answer}{}", if answer.ends_with('\n') { "" } else { "\n" }))?)
}

fn named(kind: &str) -> Result<&'static Resource, CliError> {
    let unknown = || {
        let kinds: Vec<&str> = RESOURCES.iter().map(|resource| resource.kind).collect();
        CliError::usage(format!("there is no kind '{kind}'")).hint(format!("the kinds: {}", kinds.join(", ")))
    };
    RESOURCES.iter().find(|resource| resource.kind == kind).ok_or_else(unknown)
}

/// The path of a thing: by the start of its id, or by its kind and id.
fn path(words: &[String]) -> Result<String, CliError> {
    let (resource, id) = match words {
        [kind, id] => (named(kind)?, id),
        [id] => {
            let mut known = RESOURCES.iter().filter(|resource| !resource.prefix.is_empty());
            let found = known.find(|resource| id.starts_with(resource.prefix)).ok_or_else(|| {
                CliError::usage(format!("'{id}' is not an id"))
                    .hint("as in: nanoclaw show job_…, or by kind: nanoclaw show conversations NAME")
            })?;
            (found, id)
        }
        _ => return Err(CliError::usage("the id is missing")),
    };
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || !id.chars().all(is_safe) {
        return Err(CliError::usage(format!("'{id}' is not an id"))
            .hint(format!("those that there are: nanoclaw list {}", resource.kind)));
    }
    Ok(format!("{}/{id}", resource.path))
}

/// The answer without the envelope of `/api`.
fn data(mut answer: Value) -> Value {
    match answer.get("code") {
        Some(_) => answer.get_mut("data").map(Value::take).unwrap_or_default(),
        None => answer,
    }
}

/// A value as text; a time of `/v1` as a date.
fn cell(field: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Some(Value::Number(number)) if field.ends_with("_at") => {
            let time = number.as_i64().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
            time.map_or_else(|| number.to_string(), |time| time.to_string())
        }
        Some(other) => other.to_string(),
    }
}

/// Lines of columns, each as wide as its widest cell, cut at the width of the terminal.
fn table(rows: &[Vec<String>], columns: usize) -> String {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|text| text.chars().count()).max();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, text)| format!("{text:<0$} ", width(at).unwrap_or(0)));
        format!("{}\n", cut(cells.collect::<String>().trim_end(), columns))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(words: &[&str]) -> Option<String> {
        path(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn an_id_names_its_kind_and_cannot_change_the_path() {
        assert_eq!(path_of(&["proj_1"]).as_deref(), Some("/api/projects/proj_1"));
        assert_eq!(path_of(&["conversations", "my-trip"]).as_deref(), Some("/api/conversations/my-trip"));
        for refused in [&["trip"][..], &["job_1/../x"], &["things", "x"], &["jobs", ""], &["jobs", "?"]] {
            assert_eq!(path_of(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["ID", "NAME"]), row(["proj_1", "a"])];
        assert_eq!(table(&rows, 100), "ID     NAME\nproj_1 a\n");
        assert_eq!(cell("/next_run_at", Some(&Value::from(0))), "1970-01-01T00:00:00Z");
        assert_eq!(cell("/name", Some(&Value::Null)), "-");
    }
}
