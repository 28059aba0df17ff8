//! Resources of the MCP server: jobs, and files of projects. They are read, not subscribed to.

mod list;
mod read;
mod uri;

pub(super) use list::list;
pub(super) use read::read;

use super::message::RpcError;
use crate::http::request::typed;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const JSON: &str = "application/json";

#[derive(Deserialize)]
struct PageParams {
    cursor: Option<String>,
}

/// `resources/templates/list`: the forms of all URIs, on one page.
pub(super) fn templates(params: Map<String, Value>) -> Result<Value, RpcError> {
    let params: PageParams = typed::from_map(params)?;
    if params.cursor.is_some() {
        return Err(RpcError::Params("'cursor' is of no list: the templates are on one page".to_owned()));
    }
    Ok(json!({"resourceTemplates": [
        {
            "uriTemplate": "nanoclaw://jobs/{id}",
            "name": "job",
            "title": "A job",
            "description": "A job with its status, answer and usage",
            "mimeType": JSON,
        },
        {
            "uriTemplate": "nanoclaw://projects/{id}/files/{+path}",
            "name": "file",
            "title": "A file of a project",
            "description": "A text file as text, any other as base64",
        },
    ]}))
}
