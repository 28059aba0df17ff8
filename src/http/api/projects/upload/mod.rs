//! `POST /api/projects/upload` and `POST /api/projects/{id}/upload`: a folder as `multipart/form-data`.
//!
//! Files are written as they arrive. Either all of them are there in the end or none: a new project becomes
//! visible when it is complete, and files added to a project are removed again after a failure.

mod path;
mod writer;

use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::domain::workspace::Workspace;
use crate::http::api::envelope;
use crate::http::api::projects::access::{Description, blocking, with_project};
use crate::http::api::projects::view::{ProjectDetails, ProjectResponse, ProjectStatsResponse, view};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::form::{FormPart, MultipartForm};
use crate::http::request::typed::unknown;
use crate::http::response::HandlerResult;
use path::UploadPath;
use std::sync::Arc;
use writer::{AddedFiles, UploadTarget, UploadWriter};

/// Arguments of curl.
const EXAMPLE: &str = "-F 'files=@a.txt;filename=folder/a.txt'";
/// The directory of a project whose name is not known yet.
const NAMELESS: &str = "upload";

/// Fields of the form beside the files.
#[derive(Default)]
struct UploadFields {
    name: Option<ProjectName>,
    description: Option<String>,
    /// The folder of the first file.
    top: Option<String>,
}

/// Where the files go.
enum UploadKind {
    New(UserId),
    Into(Project),
}

/// `POST /api/projects/upload`: a new project with these files.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let sender = body.sender();
    let mut form = MultipartForm::of_request(context, &request.headers, body, EXAMPLE)?;
    let user = request.user;
    let kind = UploadKind::New(user);
    drop(request); // frees the headers while the job runs
    let (fields, intake) = read_form(context, &kind, &mut form).await?;
    sender.confirm(context)?;
    let named = fields.name.map_or_else(|| fields.top.map(name).transpose(), |given| Ok(Some(given)))?;
    let named = named.ok_or_else(|| {
        ApiError::value("name", "'name' is missing: no file lies in a folder that could name the project")
    })?;
    let description = fields.description.unwrap_or_default();
    let made = blocking(context, user, move |app| {
        let now_ms = app.clock.now_ms();
        let dated = |project| Project { created_at_ms: now_ms, updated_at_ms: now_ms, ..project };
        let project = intake.publish(|project| dated(Project { name: named, description, ..project }))?;
        shown(app, project)
    });
    Ok(envelope::data(made.await?))
}

/// `POST /api/projects/{id}/upload`: adds files. Existing files are not replaced.
pub(crate) async fn add(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let sender = body.sender();
    let mut form = MultipartForm::of_request(context, &request.headers, body, EXAMPLE)?;
    drop(request); // frees the headers while the job runs
    let (_, intake) = read_form(context, &UploadKind::Into(project.clone()), &mut form).await?;
    sender.confirm(context)?;
    let added = blocking(context, project.user, move |app| {
        intake.keep()?;
        shown(app, project)
    });
    Ok(envelope::data(added.await?))
}

fn name(text: String) -> Result<ProjectName, ApiError> {
    ProjectName::try_from(text).map_err(|rule| bad("name", rule))
}

fn bad(field: &str, rule: &str) -> ApiError {
    ApiError::value(field, format!("'{field}' {rule}"))
}

fn shown(app: &AppDependencies, project: Project) -> Result<ProjectResponse, ApiError> {
    let stats = Some(ProjectStatsResponse::of_upload(app.workspaces.stats(&Workspace::from(&project))?));
    Ok(view(app, project)?.with(ProjectDetails { stats, ..ProjectDetails::default() }))
}

/// Reads all parts, which may come in any order. The name of the project is decided at the end.
async fn read_form(
    context: &ServerContext,
    kind: &UploadKind,
    form: &mut MultipartForm,
) -> Result<(UploadFields, UploadWriter), ApiError> {
    let is_new = matches!(kind, UploadKind::New(_));
    let known: &[&str] = if is_new { &["files", "name", "description"] } else { &["files"] };
    let (mut fields, mut intake) = (UploadFields::default(), None);
    while let Some(part) = form.next().await? {
        match part.name().unwrap_or_default() {
            "files" | "files[]" => {
                let UploadPath { top, path } = path::upload_path(part.file_name())?;
                let begun = match intake.take() {
                    Some(begun) => begun,
                    None => open(context, kind, &fields, top.as_deref()).await?,
                };
                fields.top = fields.top.or(top);
                intake = Some(take_file(form, part, begun, path).await?);
            }
            "name" if is_new && fields.name.is_none() => {
                let text = form.text("name", part).await?;
                fields.name = Some(text).filter(|text| !text.trim().is_empty()).map(name).transpose()?;
            }
            "description" if is_new && fields.description.is_none() => {
                let text = Description::try_from(form.text("description", part).await?);
                fields.description = Some(text.map_err(|rule| bad("description", &rule))?.0);
            }
            "name" | "description" if is_new => {
                return Err(ApiError::malformed("'name' and 'description' may be given once"));
            }
            other => return Err(unknown(other, known)),
        }
    }
    let intake =
        intake.ok_or_else(|| ApiError::value("files", "'files' is missing: one part for each file"))?;
    Ok((fields, intake.flush().await?))
}

async fn take_file(
    form: &mut MultipartForm,
    mut part: FormPart,
    intake: UploadWriter,
    path: String,
) -> Result<UploadWriter, ApiError> {
    let mut intake = intake.begin(path)?;
    while let Some(data) = form.piece(&mut part).await? {
        intake.take(data);
        if intake.is_heavy() {
            intake = intake.flush().await?;
            form.release_memory();
        }
    }
    Ok(intake.end())
}

/// Opens the target when the first file arrives.
async fn open(
    context: &ServerContext,
    kind: &UploadKind,
    fields: &UploadFields,
    top: Option<&str>,
) -> Result<UploadWriter, ApiError> {
    let user = match kind {
        UploadKind::New(user) => *user,
        UploadKind::Into(project) => project.user,
    };
    let known = fields.name.clone().or_else(|| top.and_then(|top| top.to_owned().try_into().ok()));
    let aim = match (kind, known) {
        (UploadKind::New(_), Some(named)) => UploadTarget::New(user, named),
        (UploadKind::New(_), None) => {
            UploadTarget::New(user, NAMELESS.to_owned().try_into().map_err(|_: &str| ApiError::Internal)?)
        }
        (UploadKind::Into(project), _) => UploadTarget::Into(AddedFiles::new(&context.app, project.clone())),
    };
    blocking(context, user, move |app| UploadWriter::open(app, aim)).await
}
