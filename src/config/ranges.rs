//! The range of every number. A number without a range is not checked, so a test compares this table with
//! the keys.

use super::keys::ConfigKeys;
use super::validate::ConfigProblems;
use crate::domain::limits::Limits;
use serde::Serialize;
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const EIB: u64 = 1 << 60;
const DAY_S: u64 = 86_400;

/// Name, minimum, maximum.
type NumberRange = (&'static str, u64, u64);

/// Keys at the top level.
pub(crate) const TOP: &[NumberRange] =
    &[("workers", 1, 1_024), ("max_iterations", 1, 1_000), ("tool_max_workers", 1, 64)];

/// `ModelKeys` of `limits:`.
pub(crate) const LIMITS: &[NumberRange] = &[
    ("body_bytes", KIB, GIB),
    ("bodies_bytes", KIB, 64 * GIB),
    ("header_bytes", 8 * KIB, MIB),
    ("headers", 16, 1_000),
    ("header_timeout_s", 1, 3_600),
    ("body_timeout_s", 1, 3_600),
    ("write_stall_s", 1, 3_600),
    ("connections", 1, 1_000_000),
    ("wait_s", 1, 3_600),
    ("input_bytes", KIB, GIB),
    ("input_messages", 1, 100_000),
    ("input_attachments", 0, 10_000),
    ("metadata_pairs", 0, 1_000),
    ("metadata_key_chars", 1, 1_024),
    ("metadata_value_chars", 1, 64 * KIB),
    ("batch_bytes", KIB, 4 * GIB),
    ("batch_lines", 1, 1_000_000),
    ("batch_concurrency", 1, 10_000),
    ("queue_jobs", 1, 100_000_000),
    ("queue_ageing_s", 0, DAY_S),
    ("idempotency_s", 1, 30 * DAY_S),
    ("job_attempts", 1, 1_000),
    ("job_backoff_s", 0, DAY_S),
    ("job_backoff_max_s", 0, 7 * DAY_S),
    ("schedules", 0, 1_000_000),
    ("spawned_jobs", 0, 1_000),
    ("message_chars", 1, 65_536),
    ("disk_free_bytes", 0, EIB),
    ("disk_free_percent", 0, 100),
    ("job_timeout_s", 1, 30 * DAY_S),
    ("job_timeout_max_s", 1, 30 * DAY_S),
    ("output_bytes", KIB, GIB),
    ("tool_calls", 1, 1_024),
    ("tool_arguments_bytes", KIB, 64 * MIB),
    ("tool_result_chars", 256, 10_000_000),
    ("tool_result_bytes", 1_024, 268_435_456),
    ("tool_timeout_s", 1, 3_600),
    ("approval_timeout_s", 1, 30 * DAY_S),
    ("repeated_failures", 1, 1_000),
    ("model_failures", 1, 100),
    ("model_idle_timeout_s", 1, 3_600),
    ("model_connect_timeout_s", 1, 600),
    ("model_wait_s", 0, 60),
    ("model_circuit_failures", 0, 1_000),
    ("model_circuit_open_s", 1, 3_600),
    ("history_messages", 0, 100_000),
    ("history_bytes", KIB, GIB),
    ("crashes", 1, 100),
    ("stuck_job_s", 0, DAY_S),
    ("drain_s", 0, 3_600),
    ("session_s", 60, 365 * DAY_S),
    ("login_failures", 1, 1_000_000),
    ("login_window_s", 1, DAY_S),
    ("user_requests_per_minute", 0, 100_000_000),
    ("accounts", 2, 100_000_000),
    ("tokens", 0, 100_000),
    ("conversations", 1, 100_000_000),
    ("conversation_prompt_bytes", KIB, 16 * MIB),
    ("projects", 0, 1_000_000),
    ("project_bytes", 0, EIB),
    ("project_entries", 0, 100_000_000),
    ("file_bytes", KIB, GIB),
    ("upload_bytes", KIB, 64 * GIB),
    ("upload_files", 1, 1_000_000),
    ("search_files", 1, 10_000_000),
    ("search_ms", 1, 600_000),
    ("page", 1, 1_000),
    ("page_max", 1, 1_000),
];

/// `ModelKeys` of `store:`.
pub(crate) const STORE: &[NumberRange] = &[
    ("cache_bytes", MIB, 64 * GIB),
    ("linger_ms", 0, 1_000),
    ("channel_writes", 16, 1_000_000),
    ("settle_ms", 1, 60_000),
    ("slow_commit_ms", 0, 600_000),
];

/// Keys of each level of `code_execution.levels:`. Zero forbids.
pub(crate) const LEVEL: &[NumberRange] = &[
    ("timeout_ms", 1, 3_600_000),
    ("cpu_s", 1, 3_600),
    ("address_space_bytes", 32 * MIB, 64 * GIB),
    ("file_size_bytes", 0, 64 * GIB),
    ("open_files", 8, 65_536),
    ("processes", 0, 4_096),
    ("own_directory_bytes", 0, 64 * GIB),
    ("own_directory_entries", 0, 200_000),
    ("stdout_bytes", 0, 64 * MIB),
    ("stderr_bytes", 0, 64 * MIB),
];

/// `ModelKeys` of `sub_agent:`.
pub(crate) const SUB_AGENT: &[NumberRange] =
    &[("max_iterations", 1, 100), ("max_concurrency", 1, 5), ("timeout_s", 1, 3_600)];
/// `ModelKeys` of each server of `mcp_servers:`.
pub(crate) const MCP_SERVER: &[NumberRange] = &[("timeout_s", 1, 3_600), ("start_timeout_s", 1, 3_600)];

/// `ModelKeys` of `webhooks:`.
pub(crate) const WEBHOOKS: &[NumberRange] = &[("timeout_s", 1, 300)];

/// `ModelKeys` of `tool_cache:`.
pub(crate) const TOOL_CACHE: &[NumberRange] =
    &[("ttl_s", 0, DAY_S), ("entries", 0, 1_000_000), ("bytes", 0, 4 * GIB)];

/// `ModelKeys` of `audit:`.
pub(crate) const AUDIT: &[NumberRange] = &[("max_bytes", 64 * KIB, 64 * GIB), ("files", 0, 1_000)];
/// `ModelKeys` of `web:`.
pub(crate) const WEB: &[NumberRange] = &[("timeout_s", 1, 300), ("max_bytes", KIB, GIB)];

/// `ModelKeys` of `web_search:` and of `weather:`.
pub(crate) const LOOKUP: &[NumberRange] = &[("timeout_s", 1, 120)];

/// `ModelKeys` of `code_execution:` itself.
pub(crate) const SANDBOX: &[NumberRange] =
    &[("max_parallel", 1, 1_024), ("max_sessions", 1, 1_024), ("max_timeout_ms", 1, 3_600_000)];

impl ConfigProblems {
    /// Checks every number against its range, and related numbers against each other.
    pub(crate) fn numbers(&mut self, keys: &ConfigKeys) {
        self.within("", keys, TOP);
        self.within("limits.", &keys.limits, LIMITS);
        self.within("store.", &keys.store, STORE);
        self.within("webhooks.", &keys.webhooks, WEBHOOKS);
        self.within("tool_cache.", &keys.tool_cache, TOOL_CACHE);
        self.within("audit.", &keys.audit, AUDIT);
        self.within("sub_agent.", &keys.sub_agent, SUB_AGENT);
        self.within("web.", &keys.web, WEB);
        self.within("web_search.", &keys.web_search, LOOKUP);
        self.within("weather.", &keys.weather, LOOKUP);
        self.within("code_execution.", &keys.code_execution, SANDBOX);
        let levels = &keys.code_execution.levels;
        for (name, level) in [
            ("strict", &levels.strict),
            ("standard", &levels.standard),
            ("lenient", &levels.lenient),
            ("shell", &levels.shell),
        ] {
            self.within(&format!("code_execution.levels.{name}."), level, LEVEL);
        }
        for (name, server) in &keys.mcp_servers {
            self.within(&format!("mcp_servers.{name}."), server, MCP_SERVER);
        }
        self.pairs(&keys.limits);
    }

    fn within(&mut self, prefix: &str, part: &impl Serialize, ranges: &[NumberRange]) {
        let shown = serde_json::to_value(part).unwrap_or(Value::Null);
        for (name, min, max) in ranges {
            let Some(number) = shown.get(name).and_then(Value::as_u64) else { continue };
            if !(*min..=*max).contains(&number) {
                self.add(format!("{prefix}{name}"), number, format!("must be from {min} to {max}"));
            }
        }
    }

    fn pairs(&mut self, limits: &Limits) {
        if limits.job_timeout_s > limits.job_timeout_max_s {
            let allowed =
                format!("must not be more than limits.job_timeout_max_s = {}", limits.job_timeout_max_s);
            self.add("limits.job_timeout_s", limits.job_timeout_s, allowed);
        }
        if limits.bodies_bytes < limits.body_bytes {
            let allowed = format!("must not be less than limits.body_bytes = {}", limits.body_bytes);
            self.add("limits.bodies_bytes", limits.bodies_bytes, allowed);
        }
        if limits.page > limits.page_max {
            let allowed = format!("must not be more than limits.page_max = {}", limits.page_max);
            self.add("limits.page", limits.page, allowed);
        }
    }
}
