//! `resources/read`: a job as JSON, a text file as text, any other file as base64.

use super::JSON;
use super::uri::ResourceUri;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::secret_names::is_secret_name;
use crate::domain::workspace::Workspace;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::mcp::message::RpcError;
use crate::http::request::{project, typed};
use crate::http::v1::jobs::view;
use crate::ports::FileError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::sync::Arc;

#[derive(Deserialize)]
struct ReadParams {
    uri: String,
}

pub(in crate::http::mcp) async fn read(
    request: &McpClientRequest,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let ReadParams { uri } = typed::from_map(params)?;
    let unknown = || RpcError::Resource(uri.clone());
    let resource: ResourceUri = uri.parse().map_err(|_| unknown())?;
    let (context, user) = (&request.context, request.caller.user);
    let read = match resource {
        ResourceUri::Job(id) => view::look(context, user, id).await.and_then(|job| {
            let text = serde_json::to_string(&job).map_err(|_| ApiError::Internal)?;
            Ok(json!({"uri": uri, "mimeType": JSON, "text": text}))
        }),
        ResourceUri::File(project, path) => {
            let (app, uri) = (Arc::clone(&context.app), uri.clone());
            context.app.blocking(user, move || file(&app, user, (project, &path), &uri)).await?
        }
    };
    match read {
        Ok(found) => Ok(json!({"contents": [found]})),
        Err(ApiError::NotFound(_) | ApiError::File(FileError::NotFound(_) | FileError::Outside(_))) => {
            Err(unknown())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a file of at most `limits.file_bytes`. A name that tools may not use is unknown.
fn file(
    app: &AppDependencies,
    user: UserId,
    (project, path): (ProjectId, &str),
    uri: &str,
) -> Result<Value, ApiError> {
    let project = project::owned(app, user, project)?;
    if path.split('/').any(is_secret_name) {
        return Err(ApiError::NotFound("resource"));
    }
    let (file, size) = app.workspaces.open_file(&Workspace::from(&project), path)?;
    let most = app.limits.file_bytes;
    let too_large = || {
        let rule = format!(
            "the file is larger than limits.file_bytes = {most} bytes: read it in parts with a program"
        );
        ApiError::File(FileError::TooLarge(rule))
    };
    if size > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| {
        tracing::error!(%error, "a file of a project cannot be read");
        ApiError::Internal
    })?;
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({"uri": uri, "mimeType": "text/plain", "text": text}),
        Err(error) => {
            let blob = STANDARD.encode(error.as_bytes());
            json!({"uri": uri, "mimeType": "application/octet-stream", "blob": blob})
        }
    })
}
