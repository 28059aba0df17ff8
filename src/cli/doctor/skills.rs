//! Checks the operator's skills: which there are, and which folders are none.

use super::check::DoctorCheck;
use crate::app::system::SystemClock;
use crate::config::Config;
use crate::tools::{RejectedSkill, find_skills};
use crate::workspace::HostDirectory;
use serde_json::{Value, json};
use std::sync::Arc;

/// Skipped folders that the advice names.
const MAX_NAMED: usize = 5;

/// The check; `None` without a directory.
pub(super) fn check_skills(config: &Config) -> Option<DoctorCheck> {
    let dir = config.skills.dir.as_ref()?;
    let path = dir.display().to_string();
    let files = HostDirectory::new(dir.clone(), Arc::new(SystemClock::new()));
    let found = match find_skills(&files) {
        Ok(found) => found,
        Err(error) => {
            let advice = "correct skills.dir in the configuration, or the directory";
            return Some(
                DoctorCheck::bad("skills", format!("{path}: {error}"), advice).with(json!({"dir": path})),
            );
        }
    };
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    let shown = |RejectedSkill { folder, error }: &RejectedSkill| format!("{folder}: {error}");
    let skipped: Vec<Value> = found
        .rejected
        .iter()
        .map(|rejected| json!({"folder": rejected.folder, "reason": rejected.error.to_string()}))
        .collect();
    let text = format!("{} in {path}", names.len());
    let facts = json!({"dir": path, "skills": names, "skipped": skipped});
    let first: Vec<String> = found.rejected.iter().take(MAX_NAMED).map(shown).collect();
    let more = found.rejected.len().saturating_sub(first.len());
    let check = if first.is_empty() {
        DoctorCheck::good("skills", text)
    } else {
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let text = format!("{text}; {} skipped", found.rejected.len());
        DoctorCheck::warned("skills", text, format!("{}{more}", first.join("; ")))
    };
    Some(check.with(facts))
}
