//! `/v1/files` in the shape of `OpenAI`. A file of another user does not exist (P7).

pub(crate) mod upload;
pub(crate) mod view;

use crate::domain::id::FileId;
use crate::domain::limits::Limits;
use crate::domain::stored_file::{FilePurpose, StoredFile};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::file_body::FileBody;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::page::is_newest_first;
use crate::ports::StoredFileQuery;
use hyper::StatusCode;
use hyper::header::CONTENT_DISPOSITION;
use serde::Serialize;
use std::fs::File;
use std::sync::Arc;
use view::{FileListResponse, FileObject};

/// The largest `limit` that clients may name. A page is shorter: `limits.page_max`.
pub(crate) const LIMIT_MAX: u64 = 10_000;

/// `GET /v1/files`, newest first unless `order=asc`.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let wanted = StoredFileQuery {
        user: request.user,
        purpose: query.text("purpose").map(|text| purpose(text, &FilePurpose::ALL)).transpose()?,
        after: query.text("after").map(after).transpose()?,
        is_newest_first: is_newest_first(query)?,
        limit: page_size(query, &context.app.limits)?,
    };
    let files = Arc::clone(&context.app.files);
    let page = context.read(request.user, move |_| files.files(&wanted)).await?;
    Ok(response::json(StatusCode::OK, &FileListResponse::from(page)))
}

/// `GET /v1/files/{id}`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let file = owned(context, request).await?;
    Ok(response::json(StatusCode::OK, &FileObject::from(file)))
}

/// `GET /v1/files/{id}/content`. A page that a browser shows never runs what it holds.
pub(crate) async fn content(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let file = owned(context, request).await?;
    let opened = open_content(context, &file).await?;
    let (threads, signal) = (context.app.threads_of(file.user), revocation::signal(context, request.caller));
    let body = FileBody::new(threads, opened, signal, None).map_err(|error| {
        tracing::error!(file = %file.id, %error, "the content of a file cannot be read");
        ApiError::Internal
    })?;
    let mut response = response::file(body);
    response::set(&mut response, CONTENT_DISPOSITION, "attachment");
    Ok(response)
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeletedFileResponse {
    id: FileId,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/files/{id}`. Its content goes with the last file that has it. Batches and jobs that were made
/// from it stay.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: FileId = request.id("file")?;
    let deleted = context.app.files.delete_file(request.user, id).await?.ok_or(ApiError::NotFound("file"))?;
    let contents = Arc::clone(&context.app.contents);
    context.app.blocking(request.user, move || contents.remove_unused(deleted.content)).await?;
    Ok(response::json(StatusCode::OK, &DeletedFileResponse { id, object: "file", deleted: true }))
}

/// The content of a file, of its full length.
pub(crate) async fn open_content(context: &ServerContext, file: &StoredFile) -> Result<File, ApiError> {
    let (contents, digest, bytes) = (Arc::clone(&context.app.contents), file.content, file.bytes);
    let opened = context.app.blocking(file.user, move || contents.open(digest)).await??;
    opened.filter(|opened| opened.metadata().is_ok_and(|found| found.len() == bytes)).ok_or_else(|| {
        tracing::error!(file = %file.id, content = %digest, "the content of a file is missing or cut");
        missing_content()
    })
}

/// The file that the path names, if it is this user's (P7).
async fn owned(context: &ServerContext, request: &RequestContext) -> Result<StoredFile, ApiError> {
    let (id, user) = (request.id("file")?, request.user);
    let files = Arc::clone(&context.app.files);
    context.read(user, move |_| files.file(user, id)).await?.ok_or(ApiError::NotFound("file"))
}

fn missing_content() -> ApiError {
    let message = "the content of this file is not on the server's disk any more: a restored backup has only the \
                   entry, not the content; upload the file again";
    ApiError::Refused { status: StatusCode::GONE, code: "content_missing", message: message.to_owned() }
}

/// One of these purposes.
pub(crate) fn purpose(text: &str, known: &[FilePurpose]) -> Result<FilePurpose, ApiError> {
    known.iter().copied().find(|purpose| purpose.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|purpose| purpose.as_str()).collect();
        let rule = format!("'purpose' must be one of {}, not {}", names.join(", "), quoted(text));
        ApiError::value("purpose", rule)
    })
}

fn after(text: &str) -> Result<FileId, ApiError> {
    text.parse().map_err(|_| {
        ApiError::value("after", format!("'after' must be the id of a file, not {}", quoted(text)))
    })
}

fn page_size(query: &QueryString, limits: &Limits) -> Result<usize, ApiError> {
    let asked = query.whole("limit", 1..=LIMIT_MAX)?.and_then(|limit| usize::try_from(limit).ok());
    Ok(asked.unwrap_or(limits.page).min(limits.page_max))
}
