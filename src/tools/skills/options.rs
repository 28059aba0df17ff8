//! `skills:` of the configuration.

use crate::domain::limits::NumberRange;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where skills come from, and how much of them models are told unasked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillOptions {
    /// The operator's skills; none by default. Relative to the configuration file.
    pub dir: Option<PathBuf>,
    /// Whether the directory `skills` of a project has skills for the jobs of that project.
    pub projects: bool,
    /// Skills that a job's prompt lists.
    pub listed: usize,
    /// Bytes of that list.
    pub listed_bytes: usize,
}

impl Default for SkillOptions {
    fn default() -> Self {
        Self { dir: None, projects: false, listed: 50, listed_bytes: 16 * 1024 }
    }
}

impl SkillOptions {
    /// The ranges of the numbers.
    pub const RANGES: &[NumberRange] = &[("listed", 1..=200), ("listed_bytes", 1_024..=256 * 1_024)];

    /// Whether there may be skills at all.
    pub fn are_on(&self) -> bool {
        self.dir.is_some() || self.projects
    }
}
