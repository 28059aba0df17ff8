//! The port [`Projects`] on the store, and its reads.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::ports::{ProjectCursor, ProjectError, ProjectPage, Projects, StoreError, Ticket};
use crate::store::redb::codec::keys::projects::{ProjectOwnerBytes, ProjectOwnerKey};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{PENDING_DIRECTORIES, PROJECTS, PROJECTS_OWNED};
use crate::store::redb::codec::values;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;
use std::ops::Bound;

pub(crate) mod write;

impl Projects for RedbStore {
    fn reserve_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError> {
        let options = WriteOptions::default().weighing(project.description.len());
        self.offer(options, move |transaction| transaction.reserve_project(&project, limit))
    }

    fn create_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError> {
        let options = WriteOptions::default().weighing(project.description.len());
        self.offer(options, move |transaction| transaction.create_project(&project, limit))
    }

    fn update_project(
        &self,
        user: UserId,
        id: ProjectId,
        name: Option<ProjectName>,
        description: Option<String>,
    ) -> Ticket<Option<Project>, ProjectError> {
        let bytes = description.as_ref().map_or(0, String::len);
        self.offer(WriteOptions::default().weighing(bytes), move |transaction| {
            transaction.update_project(user, id, name.as_ref(), description.as_deref())
        })
    }

    fn remove_project(&self, user: UserId, id: ProjectId) -> Ticket<Option<Project>> {
        self.offer(WriteOptions::default(), move |transaction| transaction.remove_project(user, id))
    }

    fn mark_removed(&self, project: Project) -> Ticket<()> {
        self.push(WriteOptions::default(), move |transaction| transaction.finish_project_removal(project.id))
    }

    fn project(&self, user: UserId, id: ProjectId) -> Result<Option<Project>, StoreError> {
        let found = self.read(|reading| get(reading, id))?;
        Ok(found.filter(|project| project.user == user))
    }

    fn projects(
        &self,
        user: UserId,
        before: Option<ProjectCursor>,
        limit: usize,
    ) -> Result<ProjectPage, StoreError> {
        self.read(|reading| page(reading, user, before, limit))
    }

    fn all_projects(&self, user: UserId) -> Result<Vec<Project>, StoreError> {
        self.read(|reading| Ok(page(reading, user, None, usize::MAX)?.projects))
    }

    fn pending_removals(&self) -> Result<Vec<Project>, StoreError> {
        self.read(|reading| {
            let pending_directory = PENDING_DIRECTORIES.read(reading)?;
            let mut projects = Vec::new();
            for entry in pending_directory.iter()? {
                let (key, bytes) = entry?;
                let id = ProjectId::from_bytes(*key.value());
                projects.push(values::listed(id, values::decode(bytes.value()).map(Some))?);
            }
            Ok(projects)
        })
    }
}

fn page(
    reading: &ReadTransaction,
    user: UserId,
    before: Option<ProjectCursor>,
    limit: usize,
) -> Result<ProjectPage, StoreError> {
    let owned = PROJECTS_OWNED.read(reading)?;
    let (first, last) = ProjectOwnerKey::ends(user);
    let (first, last) = (first.encode(), last.encode());
    let before = before
        .map(|ProjectCursor { updated_at_ms, id }| ProjectOwnerKey { user, updated_at_ms, id }.encode());
    let start = before.as_ref().map_or(Bound::Included(&first), Bound::Excluded);
    let mut page = ProjectPage { projects: Vec::new(), has_more: false, total: 0 };
    for entry in owned.range::<&ProjectOwnerBytes>((start, Bound::Included(&last)))? {
        if page.projects.len() >= limit {
            page.has_more = true;
            break;
        }
        let key = entry.map(|(key, _)| ProjectOwnerKey::decode(key.value()))?;
        page.projects.push(values::listed(key.id, get(reading, key.id))?);
    }
    for entry in owned.range::<&ProjectOwnerBytes>(&first..=&last)? {
        entry?;
        page.total = page.total.saturating_add(1);
    }
    Ok(page)
}

fn get(reading: &ReadTransaction, id: ProjectId) -> Result<Option<Project>, StoreError> {
    PROJECTS.read(reading)?.row(&id.to_bytes())
}
