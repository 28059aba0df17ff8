//! `file_list`: the files and directories in a directory of the job. It follows no link.

use super::builtin_tool::spec;
use super::workspace_file::{READS, file_error, file_tool, relative};
use crate::ports::{DirectoryListing, FileEntry, Tool};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Value, json};

/// Files that are shown, and directories.
const MAX_SHOWN: usize = 200;

#[derive(Deserialize)]
struct ListArguments {
    #[serde(default)]
    path: String,
    #[serde(default)]
    pattern: String,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_list",
        "List files with sizes, and directories.",
        json!({
            "path": {"type": "string", "default": ".", "description": "A directory"},
            "pattern": {
                "type": "string", "minLength": 1, "default": "*",
                "description": "A glob below it; ** stands for any directories",
            },
        }),
        &[],
    );
    file_tool(deps, spec, READS, |files, ListArguments { path, pattern }, _| {
        let pattern = if pattern.is_empty() { "*" } else { &pattern };
        let path = relative(files, &path)?;
        Ok(listing(&path, files.find(&path, pattern).map_err(file_error)?))
    })
}

fn listing(path: &str, entries: DirectoryListing) -> Value {
    let (files, directories) = (entries.files.len(), entries.directories.len());
    let file = |FileEntry { name, path, size }| json!({"name": name, "path": path, "size": size});
    let directory = |(name, path)| json!({"name": name, "path": path});
    let is_cut = entries.is_cut || files > MAX_SHOWN || directories > MAX_SHOWN;
    let mut data = json!({
        "path": path,
        "files": entries.files.into_iter().take(MAX_SHOWN).map(file).collect::<Vec<_>>(),
        "directories": entries.directories.into_iter().take(MAX_SHOWN).map(directory).collect::<Vec<_>>(),
        "total_files": files,
        "total_dirs": directories,
        "is_cut": is_cut,
    });
    if let Some(map) = data.as_object_mut().filter(|_| is_cut) {
        let uncounted = if entries.is_cut { ", and not all were counted" } else { "" };
        let note = format!(
            "Only the first {MAX_SHOWN} files and {MAX_SHOWN} directories are shown{uncounted}: narrow it with path and pattern"
        );
        map.insert("note".to_owned(), note.into());
    }
    data
}
