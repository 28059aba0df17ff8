//! Projects and their files.

use crate::domain::project::DESCRIPTION_CHARS;
use crate::http::api::envelope::PageResponse;
use crate::http::api::envelope::{DataResponse, DoneResponse};
use crate::http::api::projects::access::ProjectRequest;
use crate::http::api::projects::files::{self, DirectoryRequest, FileTextRequest, MoveRequest};
use crate::http::api::projects::search::{self, SearchRequest};
use crate::http::api::projects::view::ProjectResponse;
use crate::http::dependencies::AppDependencies;
use crate::http::openapi::tests::Drawing;
use crate::http::openapi::tests::bodies::body;
use crate::http::openapi::tests::operation::{Operation, json_of, named};
use crate::http::openapi::tests::v1::limit;
use serde_json::{Value, json};

pub(super) fn draw(drawing: &mut Drawing, app: &AppDependencies) {
    bodies(drawing);
    rows(drawing, app);
    uploads(drawing);
    tree(drawing);
    edits(drawing);
}

fn name() -> Value {
    json!({"type": "string", "maxLength": 100, "pattern": "^[^\\s./\\\\\\x00-\\x1f\\x7f-\\x9f][^/\\\\\\x00-\\x1f\\x7f-\\x9f]*$"})
}

fn description() -> Value {
    json!({"type": "string", "maxLength": DESCRIPTION_CHARS})
}

/// A path inside a project; one that leads out of it is a 403.
fn path() -> Value {
    json!({"type": "string", "pattern": "^[^\\\\\\x00-\\x1f\\x7f-\\x9f]*$"})
}

/// The same of something in it.
fn inner() -> Value {
    json!({"type": "string", "minLength": 1, "pattern": "^[^\\\\\\x00-\\x1f\\x7f-\\x9f]+$"})
}

/// Entity tags; one that is not the file's is a 412.
pub(in crate::http::openapi::tests) fn tags() -> Value {
    let tag = "(W/)?\"[!#-~]*\"";
    json!({"type": "string", "pattern": format!("^(\\*|{tag}( *, *{tag})*)$")})
}

fn bodies(drawing: &mut Drawing) {
    let special = [("name", name())];
    drawing.component("NewProject", body::<ProjectRequest>(&special, &["name"]));
    drawing.component("ProjectChange", body::<ProjectRequest>(&special, &[]));
    drawing.component("FileText", body::<FileTextRequest>(&[], &[]));
    drawing.component("FileTarget", body::<MoveRequest>(&[("new_path", inner())], &[]));
    drawing.component("NewDirectory", body::<DirectoryRequest>(&[("path", path())], &[]));
    let query = json!({"type": "string", "minLength": 1, "maxLength": search::QUERY_BYTES});
    let special = [("query", query), ("path", path())];
    drawing.component("ProjectQuery", body::<SearchRequest>(&special, &["query"]));
}

fn rows(drawing: &mut Drawing, app: &AppDependencies) {
    let cursor = json!({"type": "string", "pattern": "^([0-9]{1,19}-)?proj_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let list = Operation::new("GET", "/api/projects", "Your projects, the one that changed last first")
        .query("cursor", cursor)
        .query("limit", limit(app))
        .answers::<DataResponse<PageResponse<ProjectResponse>>>(drawing, 200, "A page");
    drawing.add(list);
    let create = Operation::new("POST", "/api/projects", "Makes an empty project");
    let create = create.takes(json_of(named("NewProject")));
    let create = create.answers::<DataResponse<ProjectResponse>>(drawing, 200, "The project");
    drawing.add(create);
    let show = Operation::new("GET", "/api/projects/{id}", "A project and what it holds");
    let show = show.answers::<DataResponse<ProjectResponse>>(drawing, 200, "As it stands");
    drawing.add(show);
    for method in ["PUT", "PATCH"] {
        let amend = Operation::new(method, "/api/projects/{id}", "Another name, another description");
        let amend = amend.may_take(json_of(named("ProjectChange")));
        let amend = amend.answers::<DataResponse<ProjectResponse>>(drawing, 200, "As it stands now");
        drawing.add(amend);
    }
    let delete =
        Operation::new("DELETE", "/api/projects/{id}", "Deletes a project, its conversations, its files");
    let delete = delete.answers::<DoneResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
}

fn uploads(drawing: &mut Drawing) {
    let parts = json!({
        "description": "A part for each file, with its path as file name",
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "format": "binary"},
    });
    let form = |properties: Value| {
        json!({"multipart/form-data": {"schema": {
            "type": "object",
            "properties": properties,
            "required": ["files"],
            "additionalProperties": false,
        }}})
    };
    let new = form(json!({"files": parts, "name": name(), "description": description()}));
    let more = form(json!({"files": parts}));
    for (path, summary, sent) in [
        ("/api/projects/upload", "A new project with these files, all or none", new),
        ("/api/projects/{id}/upload", "These files into a project, all or none", more),
    ] {
        let upload = Operation::new("POST", path, summary).takes(sent);
        let upload = upload.answers::<DataResponse<ProjectResponse>>(drawing, 200, "The project");
        drawing.add(upload);
    }
}

fn tree(drawing: &mut Drawing) {
    let list =
        Operation::new("GET", "/api/projects/{id}/files", "What lies in a directory").query("path", path());
    let list = list.answers::<DataResponse<files::DirectoryResponse>>(drawing, 200, "Files and directories");
    drawing.add(list);
    let refuse =
        Operation::new("DELETE", "/api/projects/{id}/files", "The project itself, which this refuses");
    drawing.add(refuse);
    let one = "/api/projects/{id}/files/{*path}";
    let raw = json!({"type": "boolean", "description": "The bytes of any file, to be stored"});
    let read = Operation::new("GET", one, "A text file's text, or a file's bytes").segment("path", inner());
    let read = read.query("raw", raw).header("If-None-Match", tags());
    let file = drawing.shape::<DataResponse<files::FileResponse>>();
    let content = json!({
        "application/json": {"schema": file},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    });
    let read = read.says(200, "The file; its ETag is its version", content);
    let read = read.says(304, "It still has the version of If-None-Match", Value::Null);
    drawing.add(read);
    let write = Operation::new("PUT", one, "Writes a text file").segment("path", inner());
    let write = write.header("If-Match", tags()).header("If-None-Match", json!({"const": "*"}));
    let write = write.takes(json_of(named("FileText")));
    let write =
        write.answers::<DataResponse<files::FileResponse>>(drawing, 200, "The file, without its text");
    drawing.add(write);
    let rename = Operation::new("PATCH", one, "Moves a file or a directory").segment("path", inner());
    let rename = rename.header("If-Match", tags()).takes(json_of(named("FileTarget")));
    let rename = rename.answers::<DataResponse<files::FileLocation>>(drawing, 200, "Where it is now");
    drawing.add(rename);
    let delete = Operation::new("DELETE", one, "Removes a file, or a directory and what is in it");
    let delete = delete.header("If-Match", tags()).header("If-None-Match", json!({"const": "*"}));
    let delete = delete.segment("path", inner()).answers::<DoneResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
}

fn edits(drawing: &mut Drawing) {
    let make = Operation::new("POST", "/api/projects/{id}/directories", "A directory and those above it");
    let make = make.takes(json_of(named("NewDirectory")));
    let make = make.answers::<DataResponse<files::CreatedDirectoryResponse>>(drawing, 200, "It is there");
    drawing.add(make);
    let search =
        Operation::new("POST", "/api/projects/{id}/search", "A literal text in the project's text files");
    let search = search.takes(json_of(named("ProjectQuery")));
    let search = search.answers::<DataResponse<search::SearchResponse>>(drawing, 200, "Where it stands");
    drawing.add(search);
}
