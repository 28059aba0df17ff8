//! `file_list`: the files and directories in a directory of the job's project. It follows no link.

use super::project_file::{folder, refused, shown, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileEntry, ProjectFiles, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Files that are shown, and directories.
const MOST_SHOWN: usize = 200;

struct FileList(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileList(Arc::clone(&deps.files)))
}

impl Tool for FileList {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_list".into(),
            description: "List the files (with their sizes in bytes) and directories of the project that a glob fits: '*' for \
                          what lies directly in the directory, '**/*.rs' for all such files below it."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "default": ".",
                        "description": "The directory, relative to the project's; default the project's own",
                    },
                    "pattern": {
                        "type": "string", "minLength": 1, "default": "*",
                        "description": "A glob below that directory: *, ?, [a-z], {a,b}, and ** for any directories between",
                    },
                },
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let path = text(arguments, "path");
        let pattern = Some(text(arguments, "pattern")).filter(|text| !text.is_empty()).unwrap_or("*");
        let found = folder(&*self.0, context)?.find(path, pattern).map_err(refused)?;
        let (files, directories) = (found.files.len(), found.directories.len());
        let file = |FileEntry { name, path, size }| json!({"name": name, "path": path, "size": size});
        let shown_files: Vec<Value> = found.files.into_iter().take(MOST_SHOWN).map(file).collect();
        let directory = |(name, path)| json!({"name": name, "path": path});
        let shown_directories: Vec<Value> =
            found.directories.into_iter().take(MOST_SHOWN).map(directory).collect();
        let is_cut = found.is_cut || files > MOST_SHOWN || directories > MOST_SHOWN;
        let mut data = json!({
            "path": shown(path),
            "files": shown_files,
            "directories": shown_directories,
            "total_files": files,
            "total_dirs": directories,
            "is_cut": is_cut,
        });
        if is_cut {
            let note = format!(
                "Only the first {MOST_SHOWN} files and {MOST_SHOWN} directories are shown{}: narrow it with path and pattern",
                if found.is_cut { ", and not all were counted" } else { "" }
            );
            put(&mut data, "note", json!(note));
        }
        Ok(data)
    }
}

fn put(data: &mut Value, name: &str, value: Value) {
    if let Some(map) = data.as_object_mut() {
        map.insert(name.to_owned(), value);
    }
}
