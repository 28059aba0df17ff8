//! What all project routes share: the owner check (P7), blocking work, and the fields of a project.

use crate::domain::id::UserId;
use crate::domain::project::{DESCRIPTION_CHARS, Project, ProjectName};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::project;
use crate::http::request::values::BoundedText;
use serde::Deserialize;
use std::sync::Arc;

/// A new project or a change.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProjectRequest {
    pub(crate) name: Option<ProjectName>,
    pub(crate) description: Option<Description>,
}

pub(crate) type Description = BoundedText<0, DESCRIPTION_CHARS>;

/// Runs blocking work with the dependencies.
pub(crate) async fn blocking<T, F>(context: &ServerContext, user: UserId, act: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Arc<AppDependencies>) -> Result<T, ApiError> + Send + 'static,
{
    let app = Arc::clone(&context.app);
    context.app.blocking(user, move || act(&app)).await?
}

/// The project, if it belongs to the user (P7).
pub(crate) fn owned(app: &AppDependencies, user: UserId, id: &str) -> Result<Project, ApiError> {
    project::owned(app, user, project::parse_id(id)?)
}

/// Runs blocking work with the project that the path names.
pub(crate) async fn with_project<T, F>(
    context: &ServerContext,
    request: &RequestContext,
    act: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Arc<AppDependencies>, Project) -> Result<T, ApiError> + Send + 'static,
{
    let (user, id) = (request.user, request.segment("id").to_owned());
    blocking(context, user, move |app| act(app, owned(app, user, &id)?)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ProjectId;
    use crate::http::testing::{MemoryStore, Server, app};
    use crate::http::v1::jobs::spec;
    use serde_json::{Value, json};

    /// A project of somebody else, as its row.
    fn foreign(app: &AppDependencies) -> Project {
        let theirs = crate::http::api::projects::create::draft(
            app,
            UserId(7),
            "theirs".to_owned().try_into().expect("a name"),
        );
        app.projects.create_project(theirs, 9).wait().expect("founded")
    }

    #[test]
    fn p7_a_project_of_another_user_looks_missing() {
        let app = app(&Arc::new(MemoryStore::default()));
        let theirs = foreign(&app);
        let asked = |id: String| owned(&app, UserId::SINGLE, &id).expect_err("not there").to_string();
        let unknown = ProjectId::from_bits(1).to_string();
        assert_eq!(asked(theirs.id.to_string()), asked(unknown));
        assert_eq!(owned(&app, UserId(7), &theirs.id.to_string()).expect("its owner's"), theirs);
    }

    #[test]
    fn p7_a_job_can_only_use_a_project_of_its_user() {
        let app = app(&Arc::new(MemoryStore::default()));
        let theirs = foreign(&app);
        let job = |user| {
            let Value::Object(map) = json!({"input": "x", "project_id": theirs.id}) else { unreachable!() };
            spec::from_json(map, &app, user).map(|spec| spec.project_id)
        };
        assert_eq!(job(UserId(7)).expect("a job"), Some(theirs.id));
        assert!(matches!(job(UserId::SINGLE), Err(ApiError::NotFound("project"))));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn p7_requests_for_another_users_project_get_404() {
        let (told, hears) = std::sync::mpsc::channel();
        let server = Server::with(|app| drop(told.send(tokio::task::block_in_place(|| foreign(app)))));
        let id = hears.recv().expect("a project").id;
        for line in ["GET /api/projects/{id}", "DELETE /api/projects/{id}", "GET /api/projects/{id}/files"] {
            let answer = server.ask(&line.replace("{id}", &id.to_string()), &[], "").await;
            let wanted = json!({"code": 404, "message": "project not found"});
            assert_eq!((answer.status, answer.json()), (404, wanted), "{line}");
        }
    }
}
