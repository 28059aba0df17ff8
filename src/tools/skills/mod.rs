//! Skills: instructions for special tasks, in folders of the operator's directory and of a job's project.
//! Models are told names and descriptions, and read the rest when they want it.

mod listing;
mod operator;
mod options;
mod project;
mod scan;
mod skill;
#[cfg(test)]
mod tests;

pub use options::SkillOptions;
pub use scan::{RejectedSkill, SkillSet};
pub use skill::{Skill, SkillError};

pub(super) use skill::{SKILL_FILE, split};

use crate::ports::{Clock, FileError, ReadOnlyFiles, WorkspaceFiles, WorkspaceOwner};
use operator::OperatorSkills;
use project::{PROJECT_DIRECTORY, ProjectSkillFiles, SkippedLog};
use scan::{SkillCache, scan};
use std::io;
use std::sync::Arc;

/// The skills of a directory, for `nanoclaw doctor`.
pub fn find_skills(files: &dyn ReadOnlyFiles) -> Result<SkillSet, FileError> {
    scan(files, &mut SkillCache::default())
}

/// All skills of a server.
pub struct Skills {
    operator: Option<OperatorSkills>,
    options: SkillOptions,
    files: Arc<dyn WorkspaceFiles>,
    skipped_log: SkippedLog,
}

impl Skills {
    /// The skills of `operator`, the directory of the options, and of projects whose files are in `files`.
    pub fn start(
        options: SkillOptions,
        operator: Arc<dyn ReadOnlyFiles>,
        files: Arc<dyn WorkspaceFiles>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let dir = options.dir.clone();
        let operator = dir.map(|dir| OperatorSkills::start(dir, operator, clock)).transpose()?;
        Ok(Self { operator, options, files, skipped_log: SkippedLog::default() })
    }

    /// The skills of a job.
    pub(super) fn of(&self, owner: WorkspaceOwner) -> JobSkills<'_> {
        let operator = self.operator.as_ref().map(|operator| (operator, operator.current()));
        let files = if self.options.projects { self.project_files(owner) } else { None };
        let project = files.and_then(|files| {
            let mut set = match scan(&files, &mut SkillCache::default()) {
                // Most projects have none.
                Err(FileError::NotFound(_)) => return None,
                Err(error) => {
                    tracing::warn!(project = owner.project.map(tracing::field::display), %error, "skills of a project cannot be read");
                    return None;
                }
                Ok(set) => set,
            };
            if let Some((_, operator)) = &operator {
                set.yield_to(operator);
            }
            self.skipped_log.log(owner, &set.rejected);
            Some((files, set))
        });
        JobSkills { operator, project }
    }

    /// The list for the prompt of a job.
    pub(super) fn listing(&self, owner: WorkspaceOwner) -> Option<String> {
        let skills = self.of(owner);
        let mut skills: Vec<&Skill> = skills.all().collect();
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        listing::listing(&skills, self.options.listed, self.options.listed_bytes)
    }

    fn project_files(&self, owner: WorkspaceOwner) -> Option<ProjectSkillFiles> {
        // Without the job: nobody makes a directory of a job for this.
        let owner = WorkspaceOwner { job: None, ..owner };
        owner.project?;
        match self.files.folder(owner) {
            Ok(folder) => folder.map(ProjectSkillFiles),
            Err(error) => {
                tracing::warn!(%error, "the files of a project cannot be opened; its skills are left out");
                None
            }
        }
    }
}

impl SkillSet {
    fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    /// Skips the skills whose folders `other` has, too, even if they are none at the moment.
    fn yield_to(&mut self, other: &Self) {
        let rejected = &mut self.rejected;
        self.skills.retain(|Skill { name, .. }| {
            let is_skipped = other.rejected.iter().any(|rejected| rejected.folder == *name);
            let is_kept = !is_skipped && other.find(name).is_none();
            if !is_kept {
                rejected.push(RejectedSkill { folder: name.clone(), error: SkillError::Overridden });
            }
            is_kept
        });
    }
}

/// The skills that one job may use.
pub(super) struct JobSkills<'a> {
    operator: Option<(&'a OperatorSkills, Arc<SkillSet>)>,
    project: Option<(ProjectSkillFiles, SkillSet)>,
}

/// A skill, its files, and where programs of the job find them.
pub(super) struct FoundSkill<'a> {
    pub(super) skill: &'a Skill,
    pub(super) files: &'a dyn ReadOnlyFiles,
    pub(super) directory: String,
    /// Whether programs cannot change it.
    pub(super) is_read_only: bool,
}

impl JobSkills<'_> {
    /// All skills: the operator's, then those of the project.
    pub(super) fn all(&self) -> impl Iterator<Item = &Skill> {
        let operator = self.operator.iter().flat_map(|(_, set)| &set.skills);
        operator.chain(self.project.iter().flat_map(|(_, set)| &set.skills))
    }

    /// The folders of the project that are no skills.
    pub(super) fn skipped(&self) -> &[RejectedSkill] {
        self.project.as_ref().map_or(&[], |(_, set)| &set.rejected)
    }

    /// The skill of this name.
    pub(super) fn find(&self, name: &str) -> Option<FoundSkill<'_>> {
        if let Some((operator, set)) = &self.operator
            && let Some(skill) = set.find(name)
        {
            let directory = operator.path().join(name).display().to_string();
            return Some(FoundSkill { skill, files: operator.files(), directory, is_read_only: true });
        }
        let (files, set) = self.project.as_ref()?;
        let skill = set.find(name)?;
        let directory = format!("{PROJECT_DIRECTORY}/{name}");
        Some(FoundSkill { skill, files, directory, is_read_only: false })
    }
}
