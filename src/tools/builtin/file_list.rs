//! `file_list`: the files and directories in a directory of the job's project. It follows no link.

use super::builtin_tool::spec;
use super::project_file::{READS, display_path, file_error, project_tool};
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
        "List the files (with their sizes in bytes) and directories of the project that a glob fits: '*' for what lies \
         directly in the directory, '**/*.rs' for all such files below it.",
        json!({
            "path": {
                "type": "string", "default": ".",
                "description": "The directory, relative to the project's; default the project's own",
            },
            "pattern": {
                "type": "string", "minLength": 1, "default": "*",
                "description": "A glob below that directory: *, ?, [a-z], {a,b}, and ** for any directories between",
            },
        }),
        &[],
    );
    project_tool(deps, spec, READS, |files, ListArguments { path, pattern }, _| {
        let pattern = if pattern.is_empty() { "*" } else { &pattern };
        Ok(listing(&path, files.find(&path, pattern).map_err(file_error)?))
    })
}

fn listing(path: &str, entries: DirectoryListing) -> Value {
    let (files, directories) = (entries.files.len(), entries.directories.len());
    let file = |FileEntry { name, path, size }| json!({"name": name, "path": path, "size": size});
    let directory = |(name, path)| json!({"name": name, "path": path});
    let is_cut = entries.is_cut || files > MAX_SHOWN || directories > MAX_SHOWN;
    let mut data = json!({
        "path": display_path(path),
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
