//! `/api/projects/{id}/files` and `…/directories`. [`crate::ports::Workspaces`] decides which paths are
//! valid, on the decoded path as a whole.

use super::access::{blocking, with_project};
use super::quota::allowance;
use crate::domain::file_version::FileVersion;
use crate::domain::id::ProjectId;
use crate::domain::limits::Limits;
use crate::domain::project::Project;
use crate::domain::workspace::Workspace;
use crate::http::api::envelope;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::body::{self, BufferedBody, RequestBody};
use crate::http::request::conditions::{self, entity_tag};
use crate::http::request::context::RequestContext;
use crate::http::request::{json, percent};
use crate::http::response::file_body::FileBody;
use crate::http::response::{self, HandlerResult};
use crate::ports::{DirectoryListing, FileEntry};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, ETAG};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryRequest {
    path: String,
}

/// A file to write.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileTextRequest {
    content: String,
}

/// The new path of a file or directory.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveRequest {
    new_path: String,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MadeDirectory"))]
#[derive(Serialize)]
pub(crate) struct CreatedDirectoryResponse {
    path: String,
}

/// `POST …/directories`: makes a directory and its parents. An existing one is fine.
pub(crate) async fn make_directory(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let DirectoryRequest { path } = json::read(context, &request, body).await?;
    let made = blocking(context, project.user, move |app| {
        app.workspaces.make_directory(&Workspace::from(&project), &path, allowance(app, &project)?)?;
        Ok(CreatedDirectoryResponse { path: shown(&path).1 })
    });
    Ok(envelope::data(made.await?))
}

/// Growth of a byte of text in JSON: `\u00e4` stands for two, `\u4e2d` for three.
const ESCAPED: u64 = 3;
/// JSON values of a file's body.
const MOST_VALUES: usize = 64;
/// Bytes of the object around the text.
const AROUND: u64 = 4 * 1024;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectFile"))]
#[derive(Serialize)]
pub(crate) struct FileResponse {
    name: String,
    path: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectPlace"))]
#[derive(Serialize)]
pub(crate) struct FileLocation {
    name: String,
    path: String,
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProjectDirectory"))]
#[derive(Serialize)]
pub(crate) struct DirectoryResponse {
    project_id: ProjectId,
    current_path: String,
    files: Vec<FileResponse>,
    directories: Vec<FileLocation>,
    total_files: usize,
    total_dirs: usize,
    /// The list was cut.
    is_cut: bool,
}

/// `GET …/files`: the entries of a directory.
pub(crate) async fn list(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let path = query.text("path").unwrap_or_default().to_owned();
    let listed = with_project(context, request, move |app, project| {
        let listing = app.workspaces.list(&Workspace::from(&project), &path)?;
        Ok(view(&project, &path, listing))
    });
    Ok(envelope::data(listed.await?))
}

/// `GET …/files/{path}`: the text of a file, or with `?raw=true` its bytes. The `ETag` is the file's version.
pub(crate) async fn read(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    if request.query.flag("raw")? == Some(true) {
        return download(context, request).await;
    }
    let path = request.segment("path").to_owned();
    let told = with_project(context, request, move |app, project| {
        let text = app.workspaces.read(&Workspace::from(&project), &path)?;
        let version = FileVersion::of_content(text.as_bytes());
        let (name, path) = shown(&path);
        let (size, extension) = (text.len() as u64, Some(extension(&name)));
        Ok((FileResponse { name, path, size, extension, content: Some(text) }, version))
    });
    let (file, version) = told.await?;
    let mut response = if conditions::is_known(&request.headers, version)? {
        response::empty(StatusCode::NOT_MODIFIED)
    } else {
        envelope::data(file)
    };
    response::set(&mut response, ETAG, &entity_tag(version));
    Ok(response)
}

/// The bytes of any file. A browser stores them and never shows them as a page of this server.
async fn download(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let path = request.segment("path").to_owned();
    let opened = with_project(context, request, move |app, project| {
        let (file, _) = app.workspaces.open_file(&Workspace::from(&project), &path)?;
        let version = app.workspaces.version(&file)?;
        Ok((file, version, shown(&path).0))
    });
    let (file, version, name) = opened.await?;
    let mut response = if conditions::is_known(&request.headers, version)? {
        response::empty(StatusCode::NOT_MODIFIED)
    } else {
        let signal = revocation::signal(context, request.caller);
        let body =
            FileBody::new(context.app.threads_of(request.user), file, signal, None).map_err(|error| {
                tracing::error!(%error, "a file of a project cannot be read");
                ApiError::Internal
            })?;
        response::file(body)
    };
    response::set(&mut response, ETAG, &entity_tag(version));
    response::set(&mut response, CONTENT_DISPOSITION, &attachment(&name));
    Ok(response)
}

/// `Content-Disposition` of RFC 6266: the name in ASCII, and as it is.
fn attachment(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .-_()".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", percent::encode(name))
}

/// Writes a text file. `If-Match` and `If-None-Match: *` guard what somebody else has written meanwhile.
pub(crate) async fn write(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let condition = conditions::of_change(&request.headers)?;
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let path = request.segment("path").to_owned();
    let whole = body::read_up_to(context, &request.headers, body, most_bytes(&context.app.limits)).await?;
    let written = blocking(context, project.user, move |app| {
        let BufferedBody { bytes, place } = whole;
        let FileTextRequest { content: text } = json::parse(&bytes, MOST_VALUES)?;
        drop((bytes, place));
        let (workspace, allowance) = (Workspace::from(&project), allowance(app, &project)?);
        let size = app.workspaces.write_if(&workspace, (&path, &condition), &text, allowance)?;
        let (name, path) = shown(&path);
        let version = FileVersion::of_content(text.as_bytes());
        Ok((FileResponse { name, path, size, extension: None, content: None }, version))
    });
    let (file, version) = written.await?;
    let mut response = envelope::data(file);
    response::set(&mut response, ETAG, &entity_tag(version));
    Ok(response)
}

/// Moves a file or a directory. `If-Match` guards a file as in [`write`].
pub(crate) async fn rename(
    context: &ServerContext,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let condition = conditions::of_change(&request.headers)?;
    let project = with_project(context, &request, |_, project| Ok(project)).await?;
    let from = request.segment("path").to_owned();
    let MoveRequest { new_path: to } = json::read(context, &request, body).await?;
    refuse_root("path", &from)?;
    refuse_root("new_path", &to)?;
    let moved = blocking(context, project.user, move |app| {
        app.workspaces.rename_if(&Workspace::from(&project), (&from, &condition), &to)?;
        let (name, path) = shown(&to);
        Ok(FileLocation { name, path })
    });
    Ok(envelope::data(moved.await?))
}

/// Removes a file, or a directory with all that is in it. `If-Match` guards a file as in [`write`].
pub(crate) async fn delete(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let condition = conditions::of_change(&request.headers)?;
    let path = request.segment("path").to_owned();
    with_project(context, request, move |app, project| {
        refuse_root("path", &path)?;
        Ok(app.workspaces.delete_if(&Workspace::from(&project), (&path, &condition))?)
    })
    .await?;
    Ok(envelope::done("deleted"))
}

/// The directory of the project itself cannot be moved or deleted.
fn refuse_root(param: &str, path: &str) -> Result<(), ApiError> {
    if path.split('/').all(|part| matches!(part, "" | ".")) {
        let rule = format!("'{param}' is the project itself: name a file or a directory in it");
        return Err(ApiError::value(param, rule));
    }
    Ok(())
}

/// The largest body: the largest text with every character escaped.
fn most_bytes(limits: &Limits) -> usize {
    let most = limits.file_bytes.saturating_mul(ESCAPED).saturating_add(AROUND);
    usize::try_from(most).unwrap_or(usize::MAX).max(limits.body_bytes)
}

fn view(project: &Project, path: &str, listing: DirectoryListing) -> DirectoryResponse {
    let file = |FileEntry { name, path, size }: FileEntry| {
        let extension = Some(extension(&name));
        FileResponse { name, path, size, extension, content: None }
    };
    let current = shown(path).1;
    DirectoryResponse {
        project_id: project.id,
        current_path: if current.is_empty() { "/".to_owned() } else { current },
        total_files: listing.files.len(),
        total_dirs: listing.directories.len(),
        files: listing.files.into_iter().map(file).collect(),
        directories: listing
            .directories
            .into_iter()
            .map(|(name, path)| FileLocation { name, path })
            .collect(),
        is_cut: listing.is_cut,
    }
}

/// The last segment, and the path without empty and `.` segments.
pub(crate) fn shown(path: &str) -> (String, String) {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (parts.last().copied().unwrap_or_default().to_owned(), parts.join("/"))
}

/// The extension with its dot, as in `.rs`; empty for names like `.env`.
fn extension(name: &str) -> String {
    let dot = name.rfind('.').filter(|at| *at > 0 && at.saturating_add(1) < name.len());
    dot.and_then(|at| name.get(at..)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_extension_starts_at_the_last_dot() {
        for (name, wanted) in
            [("a.rs", ".rs"), ("a.tar.gz", ".gz"), (".env", ""), ("Makefile", ""), ("a.", "")]
        {
            assert_eq!(extension(name), wanted, "{name}");
        }
    }

    #[test]
    fn a_downloaded_file_keeps_its_name() {
        assert_eq!(attachment("a.bin"), "attachment; filename=\"a.bin\"; filename*=UTF-8''a.bin");
        let told = attachment("我\"\r\n;.txt");
        assert_eq!(told, "attachment; filename=\"_____.txt\"; filename*=UTF-8''%E6%88%91%22%0D%0A%3B.txt");
    }

    #[test]
    fn every_spelling_of_the_project_root_is_refused() {
        for path in ["", ".", "./", "/", "././/."] {
            assert!(refuse_root("path", path).is_err(), "{path}");
        }
        for path in ["a", "./a", "..", ".git"] {
            assert!(refuse_root("path", path).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_path_is_shown_without_empty_segments() {
        assert_eq!(shown("./a//b.c/"), ("b.c".to_owned(), "a/b.c".to_owned()));
        assert_eq!(shown("."), (String::new(), String::new()));
    }

    #[test]
    fn the_body_limit_allows_the_largest_file_with_json_escapes() {
        let limits = Limits::default();
        let cyrillic = serde_json::to_string(&"\u{44f}".repeat(10)).expect("JSON").len();
        assert!(
            cyrillic < 30 && most_bytes(&limits) as u64 > 3 * limits.file_bytes,
            "\\u044f is 6 bytes for 2"
        );
    }
}
