//! `nanoclaw jobs` and `nanoclaw cancel`.

use super::render::{cut, one_line};
use super::watch::cancel as cancel_job;
use crate::app::system::SystemClock;
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::replay::report::money;
use crate::cli::terminal::Terminal;
use crate::domain::job::JobStatus;
use crate::ports::{CancelToken, Clock};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The columns before the input take 58 characters.
const HEADER: &str = "JOB                            STATUS     AGE  TIME TOKENS INPUT";

/// Width of a line that no terminal shows.
const PLAIN_COLUMNS: usize = 100;

/// Time between two looks of `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = JobStatus::ALL.map(JobStatus::as_str))]
    pub(crate) status: Option<String>,
    /// Maximum number of jobs, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Show the list again every two seconds, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The job's id, job_…
    pub(crate) job: String,
    /// Print the job as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn list(client: &ApiClient, args: &JobsArgs, terminal: &Terminal) -> Result<(), CliError> {
    let mut path = format!("/v1/jobs?limit={}", args.limit);
    if let Some(status) = &args.status {
        path.push_str("&status=");
        path.push_str(status);
    }
    if args.json {
        return Ok(terminal.line(&client.get(&path)?.to_string())?);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let never = CancelToken::new(Arc::clone(&clock));
    loop {
        match client.get(&path) {
            Ok(page) => {
                if args.watch {
                    terminal.clear()?;
                }
                print(&page, terminal)?;
            }
            // A server that restarts is back in a moment.
            Err(error) if args.watch => terminal.error(&error.to_string()),
            Err(error) => return Err(error),
        }
        if !args.watch {
            return Ok(());
        }
        clock.sleep(&never, WATCH_PERIOD);
    }
}

/// Prints a page of jobs as a table.
pub(crate) fn print(page: &Value, terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.data(&table(page, SystemClock::new().now_ms() / 1_000, terminal))?)
}

/// The header and a line for each job.
fn table(page: &Value, now_s: u64, terminal: &Terminal) -> String {
    let jobs = page.get("data").and_then(Value::as_array).into_iter().flatten();
    let lines = jobs.map(|job| describe(job, now_s));
    let columns = if terminal.shows_data() { terminal.columns() } else { PLAIN_COLUMNS };
    let fit = |line: String| format!("{}\n", cut(&line, columns));
    std::iter::once(HEADER.to_owned()).chain(lines).map(fit).collect()
}

/// Cancels a job and prints it.
pub(crate) fn cancel(client: &ApiClient, args: &CancelArgs, terminal: &Terminal) -> Result<(), CliError> {
    show(&cancel_job(client, &args.job)?, args.json, terminal)
}

/// Prints a job as a line or as JSON.
pub(crate) fn show(job: &Value, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let now_s = SystemClock::new().now_ms() / 1_000;
    Ok(terminal.line(&if json { job.to_string() } else { describe(job, now_s) })?)
}

/// One line: id, state, age, duration, tokens, what bounds it, and the beginning of the input.
pub(crate) fn describe(job: &Value, now_s: u64) -> String {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default();
    let time = |key: &str| job.get(key).and_then(Value::as_u64);
    let age = time("created_at").map(|at| span(now_s.saturating_sub(at))).unwrap_or_default();
    let end = time("finished_at").unwrap_or(now_s);
    let duration = time("started_at").map(|at| span(end.saturating_sub(at))).unwrap_or_default();
    let tokens = job.pointer("/usage/total_tokens").and_then(Value::as_u64).unwrap_or_default();
    let input = one_line(text("input"));
    let preview: String = note(job, now_s).chars().chain(input.chars()).take(PLAIN_COLUMNS).collect();
    let (id, status, tokens) = (text("id"), text("status"), short(tokens));
    let line = format!("{id:<30} {status:<9} {age:>4} {duration:>5} {tokens:>6} {preview}");
    line.trim_end().to_owned()
}

/// What bounds an unfinished job and what it waits for, in front of its input: a narrow terminal cuts the
/// end.
fn note(job: &Value, now_s: u64) -> String {
    let number = |key: &str| job.get(key).and_then(Value::as_u64);
    if number("finished_at").is_some() {
        return String::new();
    }
    let deadline = number("deadline_at").map(|at| until("due", at, now_s));
    let is_started = number("started_at").is_some();
    let expiry = number("expires_at").filter(|_| !is_started).map(|at| until("expires", at, now_s));
    let cost = number("max_cost_micros").map(|most| format!("costs at most {}", money(most)));
    let notes: Vec<String> = [deadline, expiry, cost, wait(job, now_s)].into_iter().flatten().collect();
    if notes.is_empty() { String::new() } else { format!("[{}] ", notes.join(", ")) }
}

fn until(verb: &str, at: u64, now_s: u64) -> String {
    match at.checked_sub(now_s) {
        Some(left) => format!("{verb} in {}", span(left)),
        None => format!("{verb} now"),
    }
}

/// What it waits for, unless that is a worker.
fn wait(job: &Value, now_s: u64) -> Option<String> {
    let wait = job.get("waits_for")?;
    let end = |verb: &str| wait.get("until").and_then(Value::as_u64).map(|at| until(verb, at, now_s));
    let held_by = wait.get("after_job").and_then(Value::as_str);
    match wait.get("reason").and_then(Value::as_str)? {
        "conversation" => {
            Some(held_by.map_or_else(|| "behind its conversation".into(), |id| format!("behind {id}")))
        }
        "time" => end("starts"),
        "retry" => end("retries"),
        "provider" => Some("waits for its provider".into()),
        "approval" => Some("waits for an approval".into()),
        "predecessor" => Some(predecessors(job, held_by?)),
        _ => None,
    }
}

/// The job that holds this one back, and how many others it comes after.
fn predecessors(job: &Value, held_by: &str) -> String {
    let all = job.get("after").and_then(Value::as_array).map_or(1, Vec::len);
    match all.saturating_sub(1) {
        0 => format!("after {held_by}"),
        others => format!("after {held_by} and {others} more"),
    }
}

/// A time span in its largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number in at most six characters.
fn short(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", number / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::testing::FakeTerminal;
    use serde_json::json;

    #[test]
    fn a_job_line_shows_state_age_duration_tokens_waits_and_the_start_of_its_input() {
        let id = format!("job_{}", "0".repeat(26));
        let job = json!({"id": id, "status": "succeeded", "created_at": 1_000, "started_at": 1_010,
            "finished_at": 1_200, "usage": {"total_tokens": 1_234}, "input": "two\nlines"});
        assert_eq!(describe(&job, 8_200), format!("{id} succeeded   2h    3m   1234 two lines"));
        let held = json!({"id": id, "status": "queued", "created_at": 1_000, "input": "x",
            "waits_for": {"reason": "predecessor", "after_job": "job_1"}});
        assert_eq!(describe(&held, 1_005), format!("{id} queued      5s            0 [after job_1] x"));
        let bounded = json!({"id": id, "status": "queued", "created_at": 1_000, "input": "x",
            "deadline_at": 1_065, "expires_at": 1_004, "max_cost_micros": 50_000, "after": ["job_1", "job_2"],
            "waits_for": {"reason": "predecessor", "after_job": "job_1"}});
        let note = "[due in 1m, expires now, costs at most 0.050000, after job_1 and 1 more]";
        assert_eq!(describe(&bounded, 1_005), format!("{id} queued      5s            0 {note} x"));
        let mut running = bounded.clone();
        (running["started_at"], running["waits_for"]) = (json!(1_001), Value::Null);
        let note = "[due in 1m, costs at most 0.050000]";
        assert!(describe(&running, 1_005).ends_with(&format!("{note} x")));
        running["finished_at"] = json!(1_004);
        assert!(describe(&running, 1_005).ends_with("0 x"), "what has ended is not bounded any more");
        for (reason, until, after_job, note) in [
            ("worker", Value::Null, Value::Null, ""),
            ("conversation", Value::Null, json!("job_7"), "[behind job_7] "),
            ("conversation", Value::Null, Value::Null, "[behind its conversation] "),
            ("time", json!(1_065), Value::Null, "[starts in 1m] "),
            ("retry", json!(1_007), Value::Null, "[retries in 2s] "),
            ("retry", Value::Null, Value::Null, ""),
            ("provider", json!(1_007), Value::Null, "[waits for its provider] "),
            ("approval", json!(1_900), Value::Null, "[waits for an approval] "),
        ] {
            let wait = json!({"reason": reason, "until": until, "after_job": after_job});
            let held = json!({"id": id, "status": "queued", "created_at": 1_000, "input": "x",
                "waits_for": wait});
            assert!(describe(&held, 1_005).ends_with(&format!("0 {note}x")), "{reason}");
        }
        let waiting = json!({"id": id, "status": "queued", "created_at": 1_000, "started_at": null});
        assert_eq!(describe(&waiting, 1_005), format!("{id} queued      5s            0"));
    }

    #[test]
    fn the_columns_before_the_input_fit_into_60_characters() {
        let job = json!({"id": format!("job_{}", "0".repeat(26)), "status": "succeeded", "created_at": 0,
            "started_at": 0, "finished_at": 999 * 86_400, "usage": {"total_tokens": 999_999_999_999_u64},
            "input": "汉".repeat(200)});
        let line = describe(&job, 999 * 86_400);
        assert!(line.find('汉').is_some_and(|start| start <= 60), "{line}");
        assert_eq!(HEADER.find("INPUT"), Some(59));
        let page = json!({"data": [job]});
        let table = table(&page, 999 * 86_400, &FakeTerminal::piped().terminal);
        assert_eq!(table.lines().count(), 2);
    }

    #[test]
    fn long_numbers_are_shortened() {
        for (number, text) in [(0, "0"), (999_999, "999999"), (1_500_000, "1M"), (2_000_000_000, "2G")] {
            assert_eq!(short(number), text);
        }
    }
}
