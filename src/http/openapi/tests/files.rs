//! `/v1/files`.

use super::Drawing;
use super::operation::Operation;
use crate::domain::stored_file::FilePurpose;
use crate::http::v1::files::upload::{LIFETIME_S, NAME_CHARS};
use crate::http::v1::files::view::{FileListResponse, FileObject};
use crate::http::v1::files::{DeletedFileResponse, LIMIT_MAX};
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing) {
    let ids = json!({"type": "string", "pattern": "^file-[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let names = |purposes: &[FilePurpose]| json!({"enum": purposes.iter().map(|purpose| purpose.as_str()).collect::<Vec<_>>()});
    let list = Operation::new("GET", "/v1/files", "Your files")
        .query("after", ids)
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}))
        .query("order", json!({"enum": ["asc", "desc"]}))
        .query("purpose", names(&FilePurpose::ALL))
        .answers::<FileListResponse>(drawing, 200, "A page of at most limits.page_max files");
    drawing.add(list);
    let upload = Operation::new("POST", "/v1/files", "Stores a file")
        .takes(form(&names(&FilePurpose::OF_CLIENTS)))
        .answers::<FileObject>(drawing, 200, "The file is stored");
    drawing.add(upload);
    let show = Operation::new("GET", "/v1/files/{id}", "A file");
    let show = show.answers::<FileObject>(drawing, 200, "What is known of it");
    drawing.add(show);
    let delete = Operation::new("DELETE", "/v1/files/{id}", "Deletes a file");
    let delete = delete.answers::<DeletedFileResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let bytes = json!({"application/octet-stream": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}});
    let content = Operation::new("GET", "/v1/files/{id}/content", "What a file holds");
    drawing.add(content.says(200, "Its bytes", bytes));
}

fn form(purposes: &Value) -> Value {
    let file = format!("With a file name of at most {NAME_CHARS} characters");
    json!({"multipart/form-data": {"schema": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "description": file},
            "purpose": purposes,
            "expires_after[anchor]": {"enum": ["created_at"]},
            "expires_after[seconds]": {"type": "integer", "minimum": LIFETIME_S.start(), "maximum": LIFETIME_S.end()},
        },
        "required": ["file", "purpose"],
        "dependentRequired": {
            "expires_after[anchor]": ["expires_after[seconds]"],
            "expires_after[seconds]": ["expires_after[anchor]"],
        },
        "additionalProperties": false,
    }}})
}
