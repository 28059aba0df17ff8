//! Draws the `OpenAPI` document and holds the committed one, and the table of routes, against it.

mod anthropic;
mod api;
mod bodies;
mod files;
mod items;
mod mcp;
mod openai;
mod openai_conversations;
mod operation;
mod responses;
mod runs;
mod shapes;
mod v1;

use crate::http::auth::RouteAccess;
use crate::http::response::error::{AnthropicErrorResponse, ApiErrorResponse, ErrorResponse};
use crate::http::routes::ROUTES;
use crate::http::testing::{MemoryStore, app};
use operation::Operation;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is being drawn.
pub(super) struct Drawing {
    shapes: SchemaGenerator,
    paths: Map<String, Value>,
    components: Map<String, Value>,
}

impl Drawing {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self { shapes: settings.into_generator(), paths: Map::new(), components: Map::new() }
    }

    /// The schema of a type as it is answered with.
    pub(super) fn shape<T: JsonSchema>(&mut self) -> Value {
        self.shapes.subschema_for::<T>().to_value()
    }

    /// A schema that no type stands for, under a name.
    pub(super) fn component(&mut self, name: &str, schema: Value) {
        self.components.insert(name.to_owned(), schema);
    }

    /// Adds an operation.
    fn add(&mut self, operation: Operation) {
        let (path, method, told) = operation.told(self);
        let place = self.paths.entry(path).or_insert_with(|| json!({}));
        place.as_object_mut().expect("an object").insert(method, told);
    }

    fn document(mut self) -> Value {
        let mut schemas: Map<String, Value> = self.shapes.take_definitions(true);
        schemas.append(&mut self.components);
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "NanoClaw",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Durable AI-agent server. /v1 runs jobs; /api is the NanoClaw front end's. Bounds are those of \
                                the default configuration.",
            },
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}, {"api_key": []}, {"session": []}],
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "A session from POST /api/auth/login, or an API token. Not needed with auth_mode: single.",
                    },
                    "api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                    "session": {"type": "apiKey", "in": "cookie", "name": "nanoclaw_session"},
                },
            },
        })
    }
}

fn drawn() -> Value {
    let mut drawing = Drawing::new();
    let app = app(&Arc::new(MemoryStore::default()));
    v1::draw(&mut drawing, &app);
    runs::draw(&mut drawing);
    openai::draw(&mut drawing);
    items::draw(&mut drawing);
    responses::draw(&mut drawing);
    openai_conversations::draw(&mut drawing);
    files::draw(&mut drawing);
    anthropic::draw(&mut drawing);
    api::draw(&mut drawing, &app);
    mcp::draw(&mut drawing);
    drawing.shape::<ErrorResponse<'_>>();
    drawing.shape::<ApiErrorResponse>();
    drawing.shape::<AnthropicErrorResponse<'_>>();
    drawing.document()
}

/// The members of the outer objects on lines of their own, and no other space: the file is in the binary.
fn in_lines(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(members) if depth > 0 => {
            let line =
                |(name, member): (&String, &Value)| format!("{name:?}: {}", in_lines(member, depth - 1));
            let lines: Vec<String> = members.iter().map(line).collect();
            format!("{{\n{}\n}}", lines.join(",\n"))
        }
        value => value.to_string(),
    }
}

#[test]
fn the_committed_openapi_document_equals_the_generated_one() {
    let drawn = in_lines(&drawn(), 3) + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/openapi/openapi.json");
    let is_wanted = std::env::vars_os().any(|(name, _)| name == "UPDATE_OPENAPI");
    if is_wanted {
        std::fs::write(file, &drawn).expect("the document is written");
    }
    let committed = std::fs::read_to_string(file).expect("the document");
    assert!(committed == drawn, "openapi.json is out of date: UPDATE_OPENAPI=1 cargo test --lib openapi");
}

#[test]
fn the_openapi_paths_equal_the_served_routes() {
    let document = drawn();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            described.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let served: BTreeSet<String> =
        ROUTES.iter().map(|route| format!("{} {}", route.method, route.path.replace("{*", "{"))).collect();
    let missing: Vec<_> = served.difference(&described).collect();
    let invented: Vec<_> = described.difference(&served).collect();
    assert!(missing.is_empty() && invented.is_empty(), "missing: {missing:#?}, invented: {invented:#?}");
    for route in ROUTES {
        let place = route.path.replace("{*", "{");
        let told = &document["paths"][&place][&route.method.as_str().to_lowercase()];
        let wanted = match route.access {
            RouteAccess::Public => json!([]),
            RouteAccess::Optional => json!([{}, {"bearer": []}, {"api_key": []}, {"session": []}]),
            _ => Value::Null,
        };
        assert_eq!(told["security"], wanted, "security of {place}");
    }
}

/// Whether an object without any field does not match.
fn needs_a_field(schemas: &Value, schema: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return needs_a_field(schemas, &schemas[name]);
    }
    let any = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    any.is_some_and(|any| any.iter().all(|schema| needs_a_field(schemas, schema)))
        || schema["type"] == "array"
        || schema["required"].as_array().is_some_and(|names| !names.is_empty())
}

#[test]
fn a_body_may_be_absent_where_an_empty_object_is_accepted() {
    // These read a body that is not there as one that is broken.
    const STRICT: [&str; 3] = ["/v1/tools/{name}/call", "/v1/responses/input_tokens", "/v1/jobs/import"];
    let document = drawn();
    let schemas = &document["components"]["schemas"];
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let body = &operation["requestBody"];
            for content in body["content"].as_object().into_iter().flat_map(|content| content.values()) {
                let is_needed = needs_a_field(schemas, &content["schema"]) || STRICT.contains(&path.as_str());
                assert_eq!(body["required"], is_needed, "{method} {path}");
            }
        }
    }
}

#[test]
fn every_openapi_reference_resolves() {
    fn follow<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| follow(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| follow(value, found)),
            _ => {}
        }
    }
    let document = drawn();
    let mut found = Vec::new();
    follow(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let place = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(place).is_some(), "{reference}");
    }
}
