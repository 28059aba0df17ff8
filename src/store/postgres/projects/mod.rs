//! The port [`Projects`] on the store, and its reads.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::ports::{ProjectCursor, ProjectError, ProjectPage, Projects, StoreError, Ticket};
use crate::store::postgres::session::{Columns, SqlSession, read_document, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;

pub(crate) mod write;

impl Projects for PostgresStore {
    fn reserve_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError> {
        self.write(async move |act: &mut Act<'_>| act.reserve_project(&project, limit).await)
    }

    fn create_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError> {
        self.write(async move |act: &mut Act<'_>| act.create_project(&project, limit).await)
    }

    fn update_project(
        &self,
        user: UserId,
        id: ProjectId,
        name: Option<ProjectName>,
        description: Option<String>,
    ) -> Ticket<Option<Project>, ProjectError> {
        self.write(async move |act: &mut Act<'_>| {
            act.update_project(user, id, name.as_ref(), description.as_deref()).await
        })
    }

    fn remove_project(&self, user: UserId, id: ProjectId) -> Ticket<Option<Project>> {
        // Its conversations go, and so their jobs are cancelled.
        self.offer(WriteOptions::default(), async move |act: &mut Act<'_>| act.remove_project(user, id).await)
    }

    fn mark_removed(&self, project: Project) -> Ticket<()> {
        self.write(async move |act: &mut Act<'_>| act.finish_project_removal(project.id).await)
    }

    fn project(&self, user: UserId, id: ProjectId) -> Result<Option<Project>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            let sql = "SELECT project::text FROM projects WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2";
            let found = session.row(sql, &[&id.to_string(), &sql_user(user)]).await?;
            found.map(|row| row.document(0)).transpose()
        })
    }

    fn projects(
        &self,
        user: UserId,
        before: Option<ProjectCursor>,
        limit: usize,
    ) -> Result<ProjectPage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, user, before, limit).await)
    }

    fn all_projects(&self, user: UserId) -> Result<Vec<Project>, StoreError> {
        self.read(async |session: &SqlSession<'_>| Ok(page(session, user, None, usize::MAX).await?.projects))
    }

    fn pending_removals(&self) -> Result<Vec<Project>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            let rows = session.rows("SELECT project::text FROM pending_directories ORDER BY id", &[]).await?;
            rows.iter().map(|row| row.document(0)).collect()
        })
    }
}

async fn page(
    session: &SqlSession<'_>,
    user: UserId,
    before: Option<ProjectCursor>,
    limit: usize,
) -> Result<ProjectPage, StoreError> {
    // The number is there even when the page is empty.
    let sql = "SELECT counted.total, listed.project FROM \
               (SELECT count(*) AS total FROM projects WHERE user_id = $1) AS counted \
               LEFT JOIN (SELECT project::text AS project, updated_at_ms, id FROM projects WHERE user_id = $1 \
                 AND ($2::bigint IS NULL OR updated_at_ms < $2 OR (updated_at_ms = $2 AND id > $3::text)) \
                 ORDER BY updated_at_ms DESC, id LIMIT $4) AS listed ON true \
               ORDER BY listed.updated_at_ms DESC, listed.id";
    let updated_at_ms = before.map(|before| sql_number(before.updated_at_ms));
    let id = before.map(|before| before.id.to_string());
    let wanted = sql_number(limit.saturating_add(1));
    let rows = session.rows(sql, &[&sql_user(user), &updated_at_ms, &id, &wanted]).await?;
    let mut page = ProjectPage { projects: Vec::new(), has_more: false, total: 0 };
    for row in &rows {
        page.total = row.number(0)?;
        let Some(project) = row.column::<Option<&str>>(1)? else { break };
        if page.projects.len() >= limit {
            page.has_more = true;
            break;
        }
        page.projects.push(read_document(project)?);
    }
    Ok(page)
}
