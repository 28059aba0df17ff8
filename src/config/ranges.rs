//! The ranges of all numbers outside `limits:`. A number without a range is not checked, so a test compares
//! this table with the keys.

use super::expand::join_key;
use super::keys::ConfigKeys;
use super::validate::ConfigProblems;
use crate::domain::limits::{Limits, NumberRange};
use crate::telemetry::options::OtlpOptions;
use crate::tools::SkillOptions;
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_S: u64 = 86_400;

/// Keys of each level of `code_execution.levels:`. Zero forbids.
const LEVEL: &[NumberRange] = &[
    ("timeout_ms", 1..=3_600_000),
    ("cpu_s", 1..=3_600),
    ("address_space_bytes", 32 * MIB..=64 * GIB),
    ("file_size_bytes", 0..=64 * GIB),
    ("open_files", 8..=65_536),
    ("processes", 0..=4_096),
    ("own_directory_bytes", 0..=64 * GIB),
    ("own_directory_entries", 0..=200_000),
    ("stdout_bytes", 0..=64 * MIB),
    ("stderr_bytes", 0..=64 * MIB),
];

/// Keys of each server of `mcp_servers:`.
const MCP_SERVER: &[NumberRange] = &[("timeout_s", 1..=3_600), ("start_timeout_s", 1..=3_600)];

/// The sections with numbers, and their ranges.
pub(crate) const RANGES: &[(&str, &[NumberRange])] = &[
    ("", &[("workers", 1..=1_024), ("max_iterations", 1..=1_000), ("tool_max_workers", 1..=64)]),
    ("limits", Limits::RANGES),
    (
        "store",
        &[
            ("cache_bytes", MIB..=64 * GIB),
            ("lease_s", 3..=3_600),
            ("connections", 3..=200),
            ("linger_ms", 0..=1_000),
            ("channel_writes", 16..=1_000_000),
            ("settle_ms", 1..=60_000),
            ("slow_commit_ms", 0..=600_000),
        ],
    ),
    ("webhooks", &[("timeout_s", 1..=300)]),
    ("otlp", OtlpOptions::RANGES),
    ("tool_cache", &[("ttl_s", 0..=DAY_S), ("entries", 0..=1_000_000), ("bytes", 0..=4 * GIB)]),
    ("audit", &[("max_bytes", 64 * KIB..=64 * GIB), ("files", 0..=1_000)]),
    ("sub_agent", &[("max_iterations", 1..=100), ("max_concurrency", 1..=5), ("timeout_s", 1..=3_600)]),
    ("web", &[("timeout_s", 1..=300), ("max_bytes", KIB..=GIB)]),
    ("web_search", &[("timeout_s", 1..=120)]),
    ("weather", &[("timeout_s", 1..=120)]),
    ("skills", SkillOptions::RANGES),
    ("memory", &[("max_bytes", KIB..=256 * KIB)]),
    (
        "code_execution",
        &[
            ("python_zygote_idle_s", 0..=DAY_S),
            ("max_parallel", 1..=1_024),
            ("max_sessions", 1..=1_024),
            ("max_timeout_ms", 1..=3_600_000),
        ],
    ),
    ("code_execution.levels.strict", LEVEL),
    ("code_execution.levels.standard", LEVEL),
    ("code_execution.levels.lenient", LEVEL),
    ("code_execution.levels.shell", LEVEL),
];

impl ConfigProblems {
    /// Checks every number against its range, and related numbers against each other.
    pub(crate) fn numbers(&mut self, keys: &ConfigKeys) {
        let values = serde_json::to_value(keys).unwrap_or(Value::Null);
        for (section, ranges) in RANGES {
            self.within(section, &values, ranges);
        }
        for name in keys.mcp_servers.keys() {
            let server = values.get("mcp_servers").and_then(|servers| servers.get(name));
            self.section(&format!("mcp_servers.{name}"), server.unwrap_or(&Value::Null), MCP_SERVER);
        }
        self.pairs(&keys.limits);
    }

    fn within(&mut self, section: &str, values: &Value, ranges: &[NumberRange]) {
        let names = section.split('.').filter(|name| !name.is_empty());
        let section_values =
            names.fold(values, |section_values, name| section_values.get(name).unwrap_or(&Value::Null));
        self.section(section, section_values, ranges);
    }

    fn section(&mut self, section: &str, section_values: &Value, ranges: &[NumberRange]) {
        for (name, range) in ranges {
            let Some(number) = section_values.get(name).and_then(Value::as_u64) else { continue };
            if !range.contains(&number) {
                let allowed = format!("must be from {} to {}", range.start(), range.end());
                self.add(join_key(section, name), number, allowed);
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
