//! Writes projects. A project is created, changed or removed in one transaction, which also reserves the name
//! of its directory.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::ports::{ProjectError, StoreError};
use crate::store::redb::codec::keys::projects::{ProjectOwnerBytes, ProjectOwnerKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::values;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::project_directory::free_name;

impl Transaction<'_> {
    /// Reserves a directory name for a new project.
    pub(crate) fn reserve_project(&mut self, project: &Project, limit: u64) -> Result<Project, ProjectError> {
        self.refuse_low_disk()?;
        let others = self.projects_of(project.user)?;
        refuse_many(&others, limit)?;
        let project = self.with_free_directory(project, &others)?;
        self.put_pending_directory(&project)?;
        Ok(project)
    }
}

impl Transaction<'_> {
    /// Stores a new project.
    pub(crate) fn create_project(&mut self, project: &Project, limit: u64) -> Result<Project, ProjectError> {
        self.refuse_low_disk()?;
        let others = self.projects_of(project.user)?;
        refuse_many(&others, limit)?;
        refuse_name(&others, &project.name)?;
        let reserved = self.pending_directory(project.id)?;
        let project = match reserved.filter(|reserved| reserved.user == project.user) {
            Some(reserved) => Project { directory: reserved.directory, ..project.clone() },
            None => self.with_free_directory(project, &others)?,
        };
        self.tables.pending_directories.remove(&project.id.to_bytes())?;
        self.put_project(&project, None)?;
        Ok(project)
    }
}

impl Transaction<'_> {
    /// Changes the name or description of a project.
    pub(crate) fn update_project(
        &mut self,
        user: UserId,
        id: ProjectId,
        name: Option<&ProjectName>,
        description: Option<&str>,
    ) -> Result<Option<Project>, ProjectError> {
        let found = self.project(id)?.filter(|found| found.user == user);
        let Some(mut project) = found else { return Ok(None) };
        if let Some(name) = name.filter(|name| **name != project.name) {
            refuse_name(&self.projects_of(user)?, name)?;
            project.name = name.clone();
        }
        if let Some(description) = description {
            description.clone_into(&mut project.description);
        }
        let last = ProjectOwnerKey::of(&project);
        project.updated_at_ms = self.now_ms;
        self.put_project(&project, Some(last))?;
        Ok(Some(project))
    }
}

impl Transaction<'_> {
    /// Removes a project with its conversations.
    pub(crate) fn remove_project(
        &mut self,
        user: UserId,
        id: ProjectId,
    ) -> Result<Option<Project>, StoreError> {
        let found = self.project(id)?.filter(|found| found.user == user);
        let Some(project) = found else { return Ok(None) };
        self.remove_conversations_of(user, id)?;
        let tables = &mut self.tables;
        tables.projects.remove(&id.to_bytes())?;
        tables.projects_owned.remove(&ProjectOwnerKey::of(&project).encode())?;
        self.put_pending_directory(&project)?;
        Ok(Some(project))
    }
}

impl Transaction<'_> {
    /// Forgets the directory of a removed project.
    pub(crate) fn finish_project_removal(&mut self, id: ProjectId) -> Result<(), StoreError> {
        if self.tables.pending_directories.remove(&id.to_bytes())?.is_some() {
            self.mark_dirty();
        }
        Ok(())
    }
}

fn refuse_many(others: &[Project], limit: u64) -> Result<(), ProjectError> {
    if u64::try_from(others.len()).unwrap_or(u64::MAX) >= limit {
        return Err(ProjectError::ProjectsFull { limit });
    }
    Ok(())
}

fn refuse_name(others: &[Project], name: &ProjectName) -> Result<(), ProjectError> {
    if others.iter().any(|other| other.name == *name) { Err(ProjectError::NameTaken) } else { Ok(()) }
}

impl Transaction<'_> {
    fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.tables.projects.row(&id.to_bytes())
    }

    fn pending_directory(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.tables.pending_directories.row(&id.to_bytes())
    }

    /// All projects of a user, bounded by `limits.projects`.
    fn projects_of(&self, user: UserId) -> Result<Vec<Project>, StoreError> {
        let (first, last) = ProjectOwnerKey::ends(user);
        let owned =
            self.tables.projects_owned.range::<&ProjectOwnerBytes>(&first.encode()..=&last.encode())?;
        let mut projects = Vec::new();
        for entry in owned {
            let key = entry.map(|(key, _)| ProjectOwnerKey::decode(key.value()))?;
            projects.extend(values::skip_unreadable(key.id, self.project(key.id))?);
        }
        Ok(projects)
    }

    /// The project with an unused directory name.
    fn with_free_directory(&self, project: &Project, others: &[Project]) -> Result<Project, StoreError> {
        let mut reserved_names = Vec::new();
        for entry in self.tables.pending_directories.iter()? {
            let (key, bytes) = entry?;
            let id = ProjectId::from_bytes(*key.value());
            let other: Option<Project> =
                values::skip_unreadable(id, values::decode(bytes.value()).map(Some))?;
            reserved_names
                .extend(other.filter(|other| other.user == project.user).map(|other| other.directory));
        }
        let is_taken = |name: &str| {
            others.iter().any(|other| other.directory == name)
                || reserved_names.iter().any(|reserved| reserved == name)
        };
        Ok(Project { directory: free_name(&project.directory, is_taken), ..project.clone() })
    }

    /// Writes a project and updates its position in its owner's list.
    fn put_project(&mut self, project: &Project, last: Option<ProjectOwnerKey>) -> Result<(), StoreError> {
        let tables = &mut self.tables;
        if let Some(last) = last {
            tables.projects_owned.remove(&last.encode())?;
        }
        tables.projects_owned.insert(&ProjectOwnerKey::of(project).encode(), ())?;
        tables.projects.put_row(&project.id.to_bytes(), project)?;
        self.mark_dirty();
        Ok(())
    }

    fn put_pending_directory(&mut self, project: &Project) -> Result<(), StoreError> {
        self.tables.pending_directories.put_row(&project.id.to_bytes(), project)?;
        self.mark_dirty();
        Ok(())
    }
}
