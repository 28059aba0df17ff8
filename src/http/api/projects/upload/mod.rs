//! `POST /api/projects/upload` and `POST /api/projects/{id}/upload`: a folder as `multipart/form-data`, into a new project or into one
//! that is there. Owns what the fields mean. It is written as it comes, and all of it is there in the end or none: a project is
//! seen once it is whole, and of files that are added to one those go again that came before the one that failed.

mod form;
mod path;
mod writer;

use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::http::api::envelope;
use crate::http::api::projects::access::{blocking, description, name, with_project};
use crate::http::api::projects::view::{ProjectDetails, ProjectResponse, ProjectStatsResponse, view};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::unknown;
use crate::http::request::query::QueryString;
use crate::http::response::HttpResponse;
use form::{FormPart, MultipartForm};
use path::UploadPath;
use std::sync::Arc;
use writer::{AddedFiles, UploadTarget, UploadWriter};

/// What a directory is called whose project's name is not known yet.
const NAMELESS: &str = "upload";

/// What was said beside the files.
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

/// A new project with these files.
pub(crate) async fn create(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let sender = body.sender();
    let mut form = MultipartForm::of_request(context, &request.headers, body)?;
    let way = UploadKind::New(request.user);
    drop(request); // nothing of the request outlives its reading
    let (said, intake) = take_in(context, &way, &mut form).await?;
    sender.confirm(context)?;
    let named = said.name.map_or_else(|| name(said.top), |given| Ok(Some(given)))?;
    let named = named.ok_or_else(|| {
        ApiError::value("name", "'name' is missing: no file lies in a folder that could name the project")
    })?;
    let description = said.description.unwrap_or_default();
    let made = blocking(context, move |app| {
        let now_ms = app.clock.now_ms();
        let dated = |project| Project { created_at_ms: now_ms, updated_at_ms: now_ms, ..project };
        let project = intake.found(|project| dated(Project { name: named, description, ..project }))?;
        shown(app, project)
    });
    Ok(envelope::data(made.await?))
}

/// These files into a project; none that is there gives way.
pub(crate) async fn add(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let sender = body.sender();
    let mut form = MultipartForm::of_request(context, &request.headers, body)?;
    drop(request); // nothing of the request outlives its reading
    let (_, intake) = take_in(context, &UploadKind::Into(project.clone()), &mut form).await?;
    sender.confirm(context)?;
    let added = blocking(context, move |app| {
        intake.keep()?;
        shown(app, project)
    });
    Ok(envelope::data(added.await?))
}

fn shown(app: &AppDependencies, project: Project) -> Result<ProjectResponse, ApiError> {
    let stats = Some(ProjectStatsResponse::of_upload(app.workspaces.stats(&project)?));
    Ok(view(app, project)?.with(ProjectDetails { stats, ..ProjectDetails::default() }))
}

/// Reads all parts. The parts may come in any order: what a project is called is settled in the end.
async fn take_in(
    context: &ServerContext,
    way: &UploadKind,
    form: &mut MultipartForm,
) -> Result<(UploadFields, UploadWriter), ApiError> {
    let is_new = matches!(way, UploadKind::New(_));
    let known: &[&str] = if is_new { &["files", "name", "description"] } else { &["files"] };
    let (mut said, mut intake) = (UploadFields::default(), None);
    while let Some(part) = form.next().await? {
        match part.name().unwrap_or_default() {
            "files" | "files[]" => {
                let UploadPath { top, path } = path::upload_path(part.file_name())?;
                let begun = match intake.take() {
                    Some(begun) => begun,
                    None => open(context, way, &said, top.as_deref()).await?,
                };
                said.top = said.top.or(top);
                intake = Some(take_file(form, part, begun, path).await?);
            }
            "name" if is_new && said.name.is_none() => {
                let text = form.text("name", part).await?;
                said.name = name(Some(text).filter(|text| !text.trim().is_empty()))?;
            }
            "description" if is_new && said.description.is_none() => {
                said.description = description(Some(form.text("description", part).await?))?;
            }
            "name" | "description" if is_new => {
                return Err(ApiError::malformed("'name' and 'description' may be given once"));
            }
            other => return Err(unknown(other, known)),
        }
    }
    let intake =
        intake.ok_or_else(|| ApiError::value("files", "'files' is missing: one part for each file"))?;
    Ok((said, intake.flush().await?))
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
            form.settle();
        }
    }
    Ok(intake.end())
}

/// The first file is there: now there has to be a place for it.
async fn open(
    context: &ServerContext,
    way: &UploadKind,
    said: &UploadFields,
    top: Option<&str>,
) -> Result<UploadWriter, ApiError> {
    let known = said.name.clone().or_else(|| top.and_then(|top| top.to_owned().try_into().ok()));
    let aim = match (way, known) {
        (UploadKind::New(user), Some(named)) => UploadTarget::New(*user, named),
        (UploadKind::New(user), None) => {
            UploadTarget::New(*user, NAMELESS.to_owned().try_into().map_err(|_: &str| ApiError::Internal)?)
        }
        (UploadKind::Into(project), _) => UploadTarget::Into(AddedFiles::new(&context.app, project.clone())),
    };
    blocking(context, move |app| UploadWriter::open(app, aim)).await
}
