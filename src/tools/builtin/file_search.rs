//! `file_search`: lines of the job that match a regular expression. An invalid expression is
//! searched for as text.

use super::builtin_tool::spec;
use super::workspace_file::{READS, file_error, file_tool};
use crate::ports::{SearchQuery, SearchResults, Tool};
use crate::tools::registry::ToolDeps;
use regex::RegexBuilder;
use serde::Deserialize;
use serde_json::{Value, json};

/// Files with matches that the search returns.
const MAX_FILES: usize = 200;
/// Matches that are shown.
const MAX_SHOWN: usize = 100;
/// Characters of a line that are shown.
const LINE_CHARS: usize = 300;
/// The largest compiled pattern; smaller than the workspace's limit.
const PATTERN_BYTES: usize = 2 * 1024 * 1024;

#[derive(Deserialize)]
struct SearchArguments {
    pattern: String,
    #[serde(default)]
    path: String,
    glob: Option<String>,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_search",
        "Search text files for lines that match a regular expression.",
        json!({
            "pattern": {
                "type": "string", "minLength": 1, "maxLength": 1000,
            },
            "path": {
                "type": "string", "default": ".",
                "description": "A directory or file",
            },
            "glob": {
                "type": "string", "minLength": 1,
                "description": "Only files that match it",
            },
        }),
        &["pattern"],
    );
    file_tool(deps, spec, READS, |files, SearchArguments { pattern, path, glob }, _| {
        let is_pattern = RegexBuilder::new(&pattern).size_limit(PATTERN_BYTES).build().is_ok();
        let query = SearchQuery {
            query: pattern,
            path,
            max_results: MAX_FILES,
            case_sensitive: true,
            is_pattern,
            glob,
            ..SearchQuery::default()
        };
        Ok(matches_json(files.search(query).map_err(file_error)?, is_pattern))
    })
}

fn matches_json(results: SearchResults, is_pattern: bool) -> Value {
    let (files, mut total, mut matches) = (results.hits.len(), 0_usize, Vec::new());
    for hit in results.hits {
        for (line, content) in hit.matches {
            total += 1;
            if matches.len() < MAX_SHOWN {
                let content: String = content.chars().take(LINE_CHARS).collect();
                matches.push(json!({"path": hit.path, "line": line, "text": content}));
            }
        }
    }
    let is_cut = results.is_cut || total > MAX_SHOWN;
    let literal = (!is_pattern).then_some(
        "The pattern is no regular expression that can be searched for: it was searched for as it stands.",
    );
    let cut = is_cut.then_some("There is more: narrow it with path, glob or a longer pattern.");
    let notes: Vec<&str> = literal.into_iter().chain(cut).collect();
    let mut data =
        json!({"matches": matches, "total_matches": total, "total_files": files, "is_cut": is_cut});
    if let Some(map) = data.as_object_mut().filter(|_| !notes.is_empty()) {
        map.insert("note".to_owned(), notes.join(" ").into());
    }
    data
}
