//! The preamble: what every model is told before a job's own instructions. It is the same for all model calls
//! of a job, so that a resumed job sends the same prompt and providers can reuse its beginning.

use crate::domain::nearest::hint;
use crate::domain::timing::zone;
use crate::domain::tool::ToolChoice;
use crate::ports::{Lease, ToolScope, Toolbox, WorkspaceOwner};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The parts of a text that a job fills in.
const VARIABLES: [&str; 4] = ["{date}", "{weekday}", "{time_zone}", "{directory}"];
const TEXT: &str = "Today is {weekday}, {date} (time zone {time_zone}). {directory}";
const PROJECT: &str =
    "Files and commands work in the directory of the user's project; paths are relative to it.";
const NO_PROJECT: &str = "There is no project: files and commands work in this job's own directory, which is empty at first \
                          and is deleted with the job; paths are relative to it.";

/// `preamble:` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreambleOptions {
    /// Whether models get one.
    pub enabled: bool,
    /// The zone of the date, by its IANA name; that of the host by default.
    pub time_zone: Option<String>,
    /// The text with variables; a built-in one by default.
    pub text: Option<String>,
}

impl Default for PreambleOptions {
    fn default() -> Self {
        Self { enabled: true, time_zone: None, text: None }
    }
}

impl PreambleOptions {
    /// Every invalid value: key, value, what is allowed.
    pub fn faults(&self) -> Vec<(&'static str, String, String)> {
        let zone = self.time_zone.iter().filter(|name| zone(name).is_none());
        let zone = zone.map(|name| {
            (
                "time_zone",
                name.clone(),
                "must be the name of a time zone, such as Europe/Berlin or UTC".to_owned(),
            )
        });
        let text = self.text.as_deref().unwrap_or_default();
        let variables = braced(text).into_iter().filter(|variable| !VARIABLES.contains(variable));
        let variables = variables.map(|variable| {
            let suggestion = hint(variable, VARIABLES);
            let allowed = format!("may contain the variables {}{suggestion}", VARIABLES.join(", "));
            ("text", variable.to_owned(), allowed)
        });
        zone.chain(variables).collect()
    }
}

/// The words in braces.
fn braced(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((start, end)) = rest.find('{').and_then(|start| {
        let length = rest.get(start..)?.find('}')?;
        Some((start, start.saturating_add(length).saturating_add(1)))
    }) {
        let (word, after) = (rest.get(start..end).unwrap_or_default(), rest.get(end..).unwrap_or_default());
        let inner = word.trim_matches(['{', '}']);
        if !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphabetic() || c == '_') {
            found.push(word);
        }
        rest = after;
    }
    found
}

/// What the tools of this job say now.
pub(super) fn tool_instructions(
    toolbox: &dyn Toolbox,
    Lease { job, spec, .. }: &Lease,
    tools: &ToolChoice,
) -> Vec<String> {
    if spec.is_plain || !tools.offers_any() {
        return Vec::new();
    }
    let scope = ToolScope { choice: tools, strictness: spec.strictness, has_results: false };
    let owner = WorkspaceOwner { user: job.user, project: spec.project_id, job: Some(job.id) };
    toolbox.instructions(&scope, owner)
}

/// The text before the instructions of this job: the preamble, then what its tools say.
pub(super) fn job_preamble(
    options: &PreambleOptions,
    Lease { job, spec, .. }: &Lease,
    tools: &ToolChoice,
    instructions: &[String],
) -> Option<String> {
    if spec.is_plain {
        return None;
    }
    let facts = PreambleFacts {
        // Recorded, so that every run of the job sees the same date.
        started_at_ms: job.started_at_ms.unwrap_or(job.created_at_ms),
        has_project: spec.project_id.is_some(),
        has_tools: tools.offers_any(),
    };
    let mut parts: Vec<String> = preamble(options, facts).into_iter().collect();
    parts.extend(instructions.iter().cloned());
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The facts of one job.
#[derive(Debug, Clone, Copy)]
struct PreambleFacts {
    /// The recorded time of the job's start, unix milliseconds.
    started_at_ms: u64,
    has_project: bool,
    /// Whether the job has tools, so that a directory is of use.
    has_tools: bool,
}

/// The text before a job's own instructions; `None` if it is switched off.
fn preamble(options: &PreambleOptions, facts: PreambleFacts) -> Option<String> {
    let template = options.enabled.then(|| options.text.as_deref().unwrap_or(TEXT))?;
    let zone = options.time_zone.as_deref().and_then(zone).unwrap_or_else(TimeZone::system);
    let at = i64::try_from(facts.started_at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())?;
    let local = at.to_zoned(zone);
    let zone_name =
        local.time_zone().iana_name().map_or_else(|| format!("UTC{}", local.offset()), str::to_owned);
    let directory = match (facts.has_tools, facts.has_project) {
        (false, _) => "",
        (true, true) => PROJECT,
        (true, false) => NO_PROJECT,
    };
    let text = template
        .replace("{date}", &local.strftime("%Y-%m-%d").to_string())
        .replace("{weekday}", &local.strftime("%A").to_string())
        .replace("{time_zone}", &zone_name)
        .replace("{directory}", directory);
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 2026-01-31, 23:30 UTC.
    const LATE_MS: u64 = 1_769_902_200_000;

    fn text(options: &PreambleOptions, has_project: bool) -> Option<String> {
        preamble(options, PreambleFacts { started_at_ms: LATE_MS, has_project, has_tools: true })
    }

    fn in_zone(zone: &str) -> PreambleOptions {
        PreambleOptions { time_zone: Some(zone.to_owned()), ..PreambleOptions::default() }
    }

    #[test]
    fn the_preamble_names_the_day_in_its_zone_and_the_directory() {
        let utc = text(&in_zone("UTC"), false).expect("a text");
        assert!(
            utc.starts_with("Today is Saturday, 2026-01-31 (time zone UTC). There is no project"),
            "{utc}"
        );
        let berlin = text(&in_zone("europe/berlin"), true).expect("a text");
        assert!(berlin.starts_with("Today is Sunday, 2026-02-01 (time zone Europe/Berlin). "), "{berlin}");
        assert!(berlin.contains("the user's project"), "{berlin}");
        let facts = PreambleFacts { started_at_ms: LATE_MS, has_project: false, has_tools: false };
        let toolless = preamble(&in_zone("UTC"), facts).expect("a text");
        assert_eq!(toolless, "Today is Saturday, 2026-01-31 (time zone UTC).");
        assert!(text(&PreambleOptions::default(), false).is_some(), "the zone of the host");
    }

    #[test]
    fn the_preamble_can_be_replaced_and_switched_off() {
        let own = PreambleOptions { text: Some("It is {date}. {x} {".to_owned()), ..in_zone("UTC") };
        assert_eq!(text(&own, false).as_deref(), Some("It is 2026-01-31. {x} {"));
        let off = PreambleOptions { enabled: false, ..own };
        assert_eq!(text(&off, false), None);
        assert_eq!(text(&PreambleOptions { text: Some(" ".to_owned()), ..in_zone("UTC") }, false), None);
    }

    #[test]
    fn unknown_zones_and_variables_are_reported() {
        assert_eq!(in_zone("Europe/Berlin").faults(), []);
        assert_eq!(in_zone("Europe/Berln").faults()[0].0, "time_zone");
        let text = |text: &str| PreambleOptions { text: Some(text.to_owned()), ..PreambleOptions::default() };
        assert_eq!(text("{date} {\"a\": 1} {} {1}").faults(), []);
        let fault = &text("{dat} {directory}").faults()[..];
        assert!(
            matches!(fault, [("text", value, allowed)] if value == "{dat}" && allowed.contains("'{date}'"))
        );
    }
}
