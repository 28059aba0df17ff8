//! The whole text, read as scrapers read it.

use super::family::MAX_SERIES;
use super::testing::read;
use super::{Metrics, Scrape, ServerInfo};
use crate::domain::event::FailureCode;
use crate::domain::job::JobStatus;
use crate::domain::usage::Usage;
use crate::ports::{
    CircuitState, Cluster, Exposition, Measurement, Meter, ModelCalls, StatsSource, StoreError, StoreStats,
};
use std::collections::BTreeMap;
use std::sync::Arc;

struct FixedStats(Result<StoreStats, StoreError>);

impl StatsSource for FixedStats {
    fn stats(&self) -> Result<StoreStats, StoreError> {
        self.0.clone()
    }
}

impl Cluster for FixedStats {}

fn metrics() -> Arc<Metrics> {
    let models = ["demo".to_owned()].into();
    let server = ServerInfo { version: "9.9.9", started_at_ms: 5_000, workers: 3, models };
    Arc::new(Metrics::new(server).expect("metrics"))
}

fn scrape(metrics: &Arc<Metrics>, stats: Result<StoreStats, StoreError>) -> BTreeMap<String, f64> {
    let store = Arc::new(FixedStats(stats));
    let cluster: Arc<dyn Cluster> = Arc::<FixedStats>::clone(&store);
    let text = Scrape { metrics: Arc::clone(metrics), store, cluster }.render();
    let samples = read(&text).unwrap_or_else(|reason| panic!("{reason}\n{text}"));
    let joined = |labels: BTreeMap<String, String>| {
        labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    };
    samples.into_iter().map(|((name, labels), value)| (format!("{name} {}", joined(labels)), value)).collect()
}

#[track_caller]
fn assert_value(samples: &BTreeMap<String, f64>, series: &str, value: f64) {
    let sample = samples.get(series).copied();
    assert!(sample.is_some_and(|sample| (sample - value).abs() < 1e-9), "{series}: {sample:?}, not {value}");
}

/// One measurement of every kind.
fn every_measurement() -> Vec<Measurement<'static>> {
    vec![
        Measurement::Accepted(2),
        Measurement::Claimed { waited_us: 20_000 },
        Measurement::Ended { status: JobStatus::Succeeded, code: None, ran_us: Some(2_000_000) },
        Measurement::Ended { status: JobStatus::Cancelled, code: Some(FailureCode::Cancelled), ran_us: None },
        Measurement::WorkerBusy,
        Measurement::WorkerBusy,
        Measurement::WorkerFree,
        Measurement::ModelCalled {
            model: Some("demo"),
            outcome: "ok",
            took_us: Some(300),
            first_us: Some(100),
        },
        Measurement::ModelCalled { model: Some("demo"), outcome: "busy", took_us: None, first_us: None },
        Measurement::ModelCalled {
            model: Some("demo"),
            outcome: "circuit_open",
            took_us: None,
            first_us: None,
        },
        Measurement::ModelCalled {
            model: Some("demo"),
            outcome: "unavailable",
            took_us: Some(1),
            first_us: None,
        },
        Measurement::ModelCalled { model: None, outcome: "not_found", took_us: None, first_us: None },
        Measurement::Spent { model: "demo", usage: Usage::new(10, 4) },
        Measurement::Circuit { provider: "x.test", state: CircuitState::Open },
        Measurement::ToolCalled { tool: Some("calculator"), outcome: "succeeded", took_us: Some(400) },
        Measurement::ToolCalled { tool: None, outcome: "refused", took_us: None },
        Measurement::SandboxRan { language: "python", level: "strict", status: "ok", took_us: 50_000 },
        Measurement::Committed { writes: 3, took_us: 700 },
        Measurement::CommitFailed,
        Measurement::ConnectionOpened,
        Measurement::StreamOpened,
        Measurement::StreamClosed,
        Measurement::Answered { method: "GET", route: Some("/v1/jobs/{id}"), status: 404, took_us: 1_200 },
        Measurement::Answered { method: "other", route: None, status: 405, took_us: 9 },
        Measurement::WebhookTried("retried"),
    ]
}

#[test]
fn every_measurement_is_counted_and_the_text_is_valid() {
    let metrics = metrics();
    for measurement in every_measurement() {
        metrics.record(measurement);
    }
    let stats =
        StoreStats { queued: 7, oldest_ready_ms: 1_500, disk_free_bytes: Some(99), ..StoreStats::default() };
    let samples = scrape(&metrics, Ok(stats));
    for (series, value) in [
        ("nanoclaw_build_info version=9.9.9", 1.0),
        ("nanoclaw_workers ", 3.0),
        ("nanoclaw_workers_busy ", 1.0),
        ("nanoclaw_jobs_accepted_total ", 2.0),
        ("nanoclaw_jobs_ended_total code=none,outcome=succeeded", 1.0),
        ("nanoclaw_jobs_ended_total code=cancelled,outcome=cancelled", 1.0),
        ("nanoclaw_job_duration_seconds_sum outcome=succeeded", 2.0),
        ("nanoclaw_job_duration_seconds_count outcome=cancelled", 0.0),
        ("nanoclaw_job_queue_wait_seconds_bucket le=0.01", 0.0),
        ("nanoclaw_job_queue_wait_seconds_bucket le=0.1", 1.0),
        ("nanoclaw_model_call_duration_seconds_count model=demo,outcome=ok", 1.0),
        ("nanoclaw_first_token_seconds_count model=demo", 1.0),
        ("nanoclaw_provider_errors_total code=unavailable,model=demo", 1.0),
        ("nanoclaw_provider_errors_total code=not_found,model=other", 1.0),
        ("nanoclaw_provider_waits_total model=demo", 2.0),
        ("nanoclaw_provider_circuit_state provider=x.test", 2.0),
        ("nanoclaw_tokens_total kind=prompt,model=demo", 10.0),
        ("nanoclaw_tokens_total kind=completion,model=demo", 4.0),
        ("nanoclaw_tool_call_duration_seconds_count outcome=succeeded,tool=calculator", 1.0),
        ("nanoclaw_tool_calls_skipped_total reason=refused,tool=other", 1.0),
        ("nanoclaw_sandbox_runs_total language=python,level=strict,status=ok", 1.0),
        ("nanoclaw_sandbox_run_seconds_count language=python,level=strict", 1.0),
        ("nanoclaw_store_commit_seconds_count ", 1.0),
        ("nanoclaw_store_commit_writes_sum ", 3.0),
        ("nanoclaw_store_failures_total ", 1.0),
        ("nanoclaw_http_connections ", 1.0),
        ("nanoclaw_sse_connections ", 0.0),
        ("nanoclaw_http_requests_total method=GET,route=/v1/jobs/{id},status=404", 1.0),
        ("nanoclaw_http_requests_total method=other,route=none,status=405", 1.0),
        ("nanoclaw_http_request_duration_seconds_count route=/v1/jobs/{id}", 1.0),
        ("nanoclaw_webhook_deliveries_total outcome=retried", 1.0),
        ("nanoclaw_jobs_queued ", 7.0),
        ("nanoclaw_queue_oldest_seconds ", 1.5),
        ("nanoclaw_store_disk_free_bytes ", 99.0),
        ("nanoclaw_store_up ", 1.0),
        ("process_start_time_seconds ", 5.0),
    ] {
        assert_value(&samples, series, value);
    }
}

#[test]
fn figures_sum_all_series_and_count_calls_by_model() {
    let metrics = metrics();
    let before = metrics.figures();
    assert_eq!((before.commit, before.first_token, before.job, before.models.len()), (None, None, None, 0));
    for measurement in every_measurement() {
        metrics.record(measurement);
    }
    for (status, ran_us) in
        [(JobStatus::Succeeded, 400_000), (JobStatus::Failed, 400_000), (JobStatus::Failed, 50_000_000)]
    {
        metrics.record(Measurement::Ended { status, code: None, ran_us: Some(ran_us) });
    }
    let figures = metrics.figures();
    assert_eq!((figures.workers, figures.workers_busy, figures.streams), (3, 1, 0));
    assert!(figures.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    // Four ended: 0.4 s twice, 2 s, 50 s.
    let job = figures.job.expect("jobs have ended");
    assert!((job.p50_ms - 500.0).abs() < 1e-6 && (30_000.0..60_000.0).contains(&job.p99_ms), "{job:?}");
    let calls = |model: &str, calls, failures| ModelCalls { model: model.to_owned(), calls, failures };
    assert_eq!(figures.models, [calls("demo", 2, 1)], "calls that were not made do not count");
}

#[test]
fn a_store_that_cannot_be_read_hides_only_its_own_metrics() {
    let samples = scrape(&metrics(), Err(StoreError::Closed));
    assert_value(&samples, "nanoclaw_store_up ", 0.0);
    assert_value(&samples, "nanoclaw_jobs_accepted_total ", 0.0);
    assert!(samples.keys().all(|series| !series.starts_with("nanoclaw_jobs_queued")));
}

#[test]
fn p8_unknown_models_share_a_series_and_tools_are_bounded() {
    let metrics = metrics();
    for number in 0..MAX_SERIES * 2 {
        let name = format!("made-up-{number}");
        metrics.record(Measurement::Spent { model: &name, usage: Usage::new(1, 0) });
        metrics.record(Measurement::ToolCalled { tool: Some(&name), outcome: "succeeded", took_us: Some(1) });
    }
    let samples = scrape(&metrics, Ok(StoreStats::default()));
    assert_value(&samples, "nanoclaw_tokens_total kind=prompt,model=other", 2_000.0);
    let tools = samples.keys().filter(|s| s.starts_with("nanoclaw_tool_call_duration_seconds_count"));
    assert_eq!(tools.count(), MAX_SERIES + 1);
    assert_value(&samples, "nanoclaw_tool_call_duration_seconds_count outcome=other,tool=other", 1_000.0);
}

#[test]
fn a_bound_belongs_to_its_own_bucket() {
    let metrics = metrics();
    for took_us in [0, 250, 251, 1_000_000, 90_000_000] {
        metrics.record(Measurement::Committed { writes: 1, took_us });
    }
    let samples = scrape(&metrics, Ok(StoreStats::default()));
    for (bound, count) in
        [("0.00025", 2.0), ("0.0005", 3.0), ("0.25", 3.0), ("1", 4.0), ("5", 4.0), ("+Inf", 5.0)]
    {
        assert_value(&samples, &format!("nanoclaw_store_commit_seconds_bucket le={bound}"), count);
    }
    assert_value(&samples, "nanoclaw_store_commit_seconds_sum ", 91.000_501);
    assert_value(&samples, "nanoclaw_store_commit_seconds_count ", 5.0);
}

#[test]
fn a_gauge_may_be_negative() {
    let metrics = metrics();
    metrics.record(Measurement::WorkerFree);
    assert_value(&scrape(&metrics, Ok(StoreStats::default())), "nanoclaw_workers_busy ", -1.0);
}

#[test]
fn labels_are_escaped() {
    let metrics = metrics();
    let tool = "x\"y\\z\n";
    metrics.record(Measurement::ToolCalled { tool: Some(tool), outcome: "refused", took_us: None });
    let samples = scrape(&metrics, Ok(StoreStats::default()));
    assert_value(&samples, &format!("nanoclaw_tool_calls_skipped_total reason=refused,tool={tool}"), 1.0);
}

#[test]
fn error_codes_are_those_of_the_api() {
    use FailureCode::{
        Cancelled, ContextTooLong, Internal, MaxTotalTokens, ModelNotFound, OutputTooLarge, Poison,
        ProviderError, Timeout,
    };
    let provider = [ProviderError, ModelNotFound, ContextTooLong, OutputTooLarge];
    for code in provider.into_iter().chain([Cancelled, Timeout, MaxTotalTokens, Poison, Internal]) {
        assert_eq!(serde_json::json!(code), code.as_str());
    }
}

#[test]
fn the_reader_of_the_tests_is_strict() {
    let head = "# HELP a what\n# TYPE a histogram\n";
    for (text, is_good) in [
        (format!("{head}a_bucket{{le=\"1\"}} 1\na_bucket{{le=\"+Inf\"}} 2\na_sum 3\na_count 2\n"), true),
        (format!("{head}a_bucket{{le=\"1\"}} 3\na_bucket{{le=\"+Inf\"}} 2\na_sum 3\na_count 2\n"), false),
        (format!("{head}a_bucket{{le=\"+Inf\"}} 2\na_sum 3\na_count 3\n"), false),
        (format!("{head}a_bucket{{le=\"1\"}} 2\na_sum 3\na_count 2\n"), false),
        ("# HELP b what\n# TYPE b gauge\nb{x=\"\\\"\\\\\\n\"} 1\n".to_owned(), true),
        ("# HELP b what\n# TYPE b gauge\nb{x=\"\\q\"} 1\n".to_owned(), false),
        ("# HELP b what\n# TYPE b gauge\nb 1\nb 2\n".to_owned(), false),
        ("# HELP b what\n# TYPE b counter\nb 1\n".to_owned(), false),
        ("# TYPE b gauge\nb 1\n".to_owned(), false),
        ("# HELP b what\n# TYPE b gauge\nb 1".to_owned(), false),
    ] {
        assert_eq!(read(&text).is_ok(), is_good, "{text}");
    }
}
