//! `file_search`: lines of the job's project that match a regular expression. An invalid expression is
//! searched for as text.

use super::project_file::{folder, refused, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{ProjectFiles, SearchQuery, SearchResults, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use regex::RegexBuilder;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Files with matches that are looked for.
const MOST_FILES: usize = 200;
/// Matches that are shown.
const MOST_SHOWN: usize = 100;
/// Of a line, characters that are shown.
const LINE_CHARS: usize = 300;
/// What a pattern may come to when it is compiled, bytes; less than the workspace allows.
const PATTERN_BYTES: usize = 2 * 1024 * 1024;

struct FileSearch(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileSearch(Arc::clone(&deps.files)))
}

impl Tool for FileSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_search".into(),
            description: "Search the text files of the project for lines that a regular expression fits; case counts, unless \
                          it begins with (?i). Gives paths, line numbers and lines."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string", "minLength": 1, "maxLength": 1000,
                        "description": "A regular expression, within one line, as in fn \\w+_test\\(",
                    },
                    "path": {
                        "type": "string", "default": ".",
                        "description": "A directory or one file, relative to the project's directory; default all of it",
                    },
                    "glob": {
                        "type": "string", "minLength": 1,
                        "description": "Only files that it fits, as in *.rs or src/**/*.{js,ts}",
                    },
                },
                "required": ["pattern"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let pattern = text(arguments, "pattern");
        let is_pattern = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().is_ok();
        let path = text(arguments, "path");
        let query = SearchQuery {
            query: pattern.to_owned(),
            path: path.to_owned(),
            max_results: MOST_FILES,
            case_sensitive: true,
            is_pattern,
            glob: arguments.get("glob").and_then(Value::as_str).map(str::to_owned),
            with_hidden: false,
        };
        let found = folder(&*self.0, context)?.search(query).map_err(refused)?;
        Ok(told(found, is_pattern))
    }
}

fn told(found: SearchResults, is_pattern: bool) -> Value {
    let (files, mut total, mut matches) = (found.hits.len(), 0_usize, Vec::new());
    for hit in found.hits {
        for (line, content) in hit.matches {
            total += 1;
            if matches.len() < MOST_SHOWN {
                let content: String = content.chars().take(LINE_CHARS).collect();
                matches.push(json!({"path": hit.path, "line": line, "text": content}));
            }
        }
    }
    let is_cut = found.is_cut || total > MOST_SHOWN;
    let mut data = Map::new();
    data.insert("matches".to_owned(), Value::Array(matches));
    data.insert("total_matches".to_owned(), json!(total));
    data.insert("total_files".to_owned(), json!(files));
    data.insert("is_cut".to_owned(), json!(is_cut));
    let literal = (!is_pattern).then_some(
        "The pattern is no regular expression that can be searched for: it was searched for as it stands.",
    );
    let cut = is_cut.then_some("There is more: narrow it with path, glob or a longer pattern.");
    let notes: Vec<&str> = literal.into_iter().chain(cut).collect();
    if !notes.is_empty() {
        data.insert("note".to_owned(), json!(notes.join(" ")));
    }
    Value::Object(data)
}
