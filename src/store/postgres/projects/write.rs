//! Writes projects. A project is created, changed or removed in one transaction, which also reserves the name
//! of its directory. The projects of a user change one after the other, under a lock.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::ports::{ProjectError, StoreError};
use crate::store::postgres::session::{Columns, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::project_directory::free_name;

/// The kind of the lock of a user's projects.
const LOCK: &str = "projects";

/// Names in use by a user.
#[derive(Debug, Default)]
struct NamesInUse {
    /// Names of projects.
    projects: Vec<String>,
    /// Names of directories, those of pending projects too.
    directories: Vec<String>,
    /// The directory that is reserved for the new project.
    reserved: Option<String>,
}

impl NamesInUse {
    fn refuse_many(&self, limit: u64) -> Result<(), ProjectError> {
        if u64::try_from(self.projects.len()).unwrap_or(u64::MAX) >= limit {
            return Err(ProjectError::ProjectsFull { limit });
        }
        Ok(())
    }

    fn refuse_name(&self, name: &ProjectName) -> Result<(), ProjectError> {
        if self.projects.iter().any(|other| other == name.as_str()) {
            return Err(ProjectError::NameTaken);
        }
        Ok(())
    }

    /// The project with a directory that no other one has.
    fn with_free_directory(&self, project: &Project) -> Project {
        let is_taken = |name: &str| self.directories.iter().any(|other| other == name);
        Project { directory: free_name(&project.directory, is_taken), ..project.clone() }
    }
}

impl Act<'_> {
    /// Reserves a directory name for a new project.
    pub(crate) async fn reserve_project(
        &mut self,
        project: &Project,
        limit: u64,
    ) -> Result<Project, ProjectError> {
        self.refuse_low_disk()?;
        self.lock_of_user(LOCK, project.user).await?;
        let names = self.names_in_use(project.user, project.id).await?;
        names.refuse_many(limit)?;
        let project = names.with_free_directory(project);
        let sql = "INSERT INTO pending_directories (id, user_id, directory, project) \
                   VALUES ($1, $2, $3, $4::text::json) ON CONFLICT (id) DO UPDATE \
                   SET user_id = excluded.user_id, directory = excluded.directory, project = excluded.project";
        let (id, user) = (project.id.to_string(), sql_user(project.user));
        self.session.send(sql, &[&id, &user, &project.directory, &document(&project)?]).await?;
        Ok(project)
    }

    /// Stores a new project.
    pub(crate) async fn create_project(
        &mut self,
        project: &Project,
        limit: u64,
    ) -> Result<Project, ProjectError> {
        self.refuse_low_disk()?;
        self.lock_of_user(LOCK, project.user).await?;
        let names = self.names_in_use(project.user, project.id).await?;
        names.refuse_many(limit)?;
        names.refuse_name(&project.name)?;
        let project = match &names.reserved {
            Some(directory) => Project { directory: directory.clone(), ..project.clone() },
            None => names.with_free_directory(project),
        };
        let sql = "WITH reserved AS (DELETE FROM pending_directories WHERE id = $1) \
                   INSERT INTO projects (id, user_id, name, directory, created_at_ms, updated_at_ms, project) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7::text::json)";
        self.session
            .send(
                sql,
                &[
                    &project.id.to_string(),
                    &sql_user(project.user),
                    &project.name.as_str(),
                    &project.directory,
                    &sql_number(project.created_at_ms),
                    &sql_number(project.updated_at_ms),
                    &document(&project)?,
                ],
            )
            .await?;
        Ok(project)
    }

    /// Changes the name or description of a project.
    pub(crate) async fn update_project(
        &mut self,
        user: UserId,
        id: ProjectId,
        name: Option<&ProjectName>,
        description: Option<&str>,
    ) -> Result<Option<Project>, ProjectError> {
        self.lock_of_user(LOCK, user).await?;
        let sql = "SELECT project::text FROM projects WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 FOR NO KEY UPDATE";
        let found = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(mut project) = found.map(|row| row.document::<Project>(0)).transpose()? else {
            return Ok(None);
        };
        if let Some(name) = name.filter(|name| **name != project.name) {
            self.names_in_use(user, id).await?.refuse_name(name)?;
            project.name = name.clone();
        }
        if let Some(description) = description {
            description.clone_into(&mut project.description);
        }
        project.updated_at_ms = self.now_ms;
        let sql = "UPDATE projects SET name = $2, updated_at_ms = $3, project = $4::text::json WHERE id = $1";
        let (id, at_ms) = (id.to_string(), sql_number(project.updated_at_ms));
        self.session.send(sql, &[&id, &project.name.as_str(), &at_ms, &document(&project)?]).await?;
        Ok(Some(project))
    }

    /// Removes a project with its conversations.
    pub(crate) async fn remove_project(
        &mut self,
        user: UserId,
        id: ProjectId,
    ) -> Result<Option<Project>, StoreError> {
        // The row goes first: a conversation that begins in the project meanwhile waits for it or is found.
        let sql = "WITH removed AS (DELETE FROM projects WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2 \
                     RETURNING id, user_id, directory, project), \
                   pending AS (INSERT INTO pending_directories SELECT * FROM removed ON CONFLICT (id) DO UPDATE \
                     SET user_id = excluded.user_id, directory = excluded.directory, project = excluded.project) \
                   SELECT project::text FROM removed";
        let found = self.session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
        let Some(removed) = found else { return Ok(None) };
        self.remove_conversations_of(user, id).await?;
        removed.document(0).map(Some)
    }

    /// Forgets the directory of a removed project.
    pub(crate) async fn finish_project_removal(&mut self, id: ProjectId) -> Result<(), StoreError> {
        let sql = "DELETE FROM pending_directories WHERE id = $1";
        self.session.send(sql, &[&id.to_string()]).await
    }

    /// The names of a user's projects, bounded by `limits.projects`, and directories; `new` may have one.
    async fn names_in_use(&self, user: UserId, new: ProjectId) -> Result<NamesInUse, StoreError> {
        let sql = "SELECT name, directory, false FROM projects WHERE user_id = $1 \
                   UNION ALL SELECT NULL, directory, id = $2 FROM pending_directories WHERE user_id = $1";
        let rows = self.session.rows(sql, &[&sql_user(user), &new.to_string()]).await?;
        let mut names = NamesInUse::default();
        for row in &rows {
            let directory: String = row.column(1)?;
            names.projects.extend(row.column::<Option<String>>(0)?);
            if row.column(2)? {
                names.reserved = Some(directory.clone());
            }
            names.directories.push(directory);
        }
        Ok(names)
    }
}
