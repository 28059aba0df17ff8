//! `file_edit`: replaces a piece of a text file of the job. The piece must match exactly; line
//! ends, a byte order mark and everything else stay as they are.

mod nearest_text;
mod splice;

use super::builtin_tool::spec;
use super::workspace_file::{WRITES, file_error, file_tool, path_parameter, relative, version_of};
use super::workspace_programs::FilePrograms;
use crate::ports::{FileError, SeenFiles, Tool, ToolError, WorkspaceFolder, WrittenFile};
use crate::tools::registry::ToolDeps;
use nearest_text::nearest;
use serde::Deserialize;
use serde_json::{Value, json};
use splice::{EditError, EditedText, NormalizedText, TextEdit, splice};
use std::sync::Arc;

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Lines around an edit that are shown, on each side.
const CONTEXT_LINES: usize = 3;
/// Lines of an edit that are shown.
const SHOWN_LINES: usize = 20;
/// Characters of a line that are shown.
const LINE_CHARS: usize = 200;

#[derive(Deserialize)]
struct EditArguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_edit",
        "Replace old_text in a text file by new_text. old_text must occur exactly once, copied as file_read shows it, or set \
         replace_all.",
        json!({
            "path": path_parameter(),
            "old_text": {"type": "string"},
            "new_text": {"type": "string"},
            "replace_all": {"type": "boolean", "default": false},
        }),
        &["path", "old_text", "new_text"],
    );
    let max_bytes = deps.options.limits.file_bytes;
    let runner = Arc::clone(&deps.code);
    file_tool(deps, spec, WRITES, move |files, arguments: EditArguments, context| {
        let path = relative(files, &arguments.path)?;
        let (old, new) = (arguments.old_text.as_str(), arguments.new_text.as_str());
        let edit = TextEdit { old, new, all: arguments.replace_all, max_bytes };
        let programs = FilePrograms::of(runner.as_ref(), context);
        edit_file((files, &context.seen_files), &path, edit, programs)
    })
}

fn edit_file(
    (files, seen_files): (&dyn WorkspaceFolder, &SeenFiles),
    path: &str,
    edit: TextEdit<'_>,
    programs: FilePrograms,
) -> Result<Value, ToolError> {
    if edit.old.is_empty() {
        let message = "old_text is empty: to make a file or to write it anew use file_write, with mode append to add to its end";
        return Err(ToolError::Invalid(message.to_owned()));
    }
    if edit.old == edit.new {
        return Err(ToolError::Invalid(
            "old_text and new_text are the same: nothing would change".to_owned(),
        ));
    }
    let mut attempt = EditAttempt::NotFound;
    // A file that the model has not seen may be edited: old_text shows what the model expects there.
    let seen = seen_files.version(path);
    let written = files.revise(path, &mut |before| {
        let is_as_seen =
            seen.as_ref().is_none_or(|seen| before.as_deref().map(version_of).as_ref() == Some(seen));
        attempt = match before {
            Some(_) if !is_as_seen => EditAttempt::Changed,
            before => EditAttempt::at(before, edit),
        };
        attempt.bytes()
    });
    let written = written.map_err(file_error)?;
    match (attempt, written) {
        (EditAttempt::Made(edited), Some(written)) => {
            // Only a model that had seen the file knows all of it now.
            if seen.is_some() {
                seen_files.record(path, version_of(edited.text.as_bytes()));
            }
            Ok(edit_result(path, &edited, written))
        }
        (EditAttempt::Failed(error, text), _) => Err(not_edited(path, edit, (error, &text), programs)),
        (EditAttempt::Changed, _) => Err(ToolError::failed(format!(
            "'{path}' has changed since you last read or wrote it: nothing was changed. Read it again (file_read), then \
             edit what it says now"
        ))),
        (EditAttempt::NotText, _) => {
            let hint = programs.hint(". Convert it with {} to change it", "iconv");
            let error = FileError::NotText(path.to_owned());
            Err(ToolError::failed(format!("{error}. file_read with an encoding shows it{hint}")))
        }
        (EditAttempt::NotFound | EditAttempt::Made(_), _) => {
            Err(file_error(FileError::NotFound(path.to_owned())))
        }
    }
}

/// The result of an edit, made while no other edit of the file runs.
enum EditAttempt {
    NotFound,
    NotText,
    /// The model has seen another version.
    Changed,
    /// The error, and the file's text.
    Failed(EditError, String),
    Made(EditedText),
}

impl EditAttempt {
    fn at(current: Option<Vec<u8>>, edit: TextEdit<'_>) -> Self {
        let Some(bytes) = current else { return Self::NotFound };
        let Ok(raw) = String::from_utf8(bytes) else { return Self::NotText };
        let body = raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&raw);
        match splice(body, edit) {
            Ok(edited) if body.len() < raw.len() => {
                Self::Made(EditedText { text: [BYTE_ORDER_MARK, &edited.text].concat(), ..edited })
            }
            Ok(edited) => Self::Made(edited),
            Err(error) => Self::Failed(error, raw),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Made(edited) => Some(edited.text.as_bytes().to_vec()),
            _ => None,
        }
    }
}

fn edit_result(path: &str, edited: &EditedText, written: WrittenFile) -> Value {
    json!({
        "path": path,
        "replacements": edited.replacements,
        "lines": edited.lines,
        "size": written.size,
        "snippet": snippet(edited),
    })
}

/// The lines around the first new piece, numbered.
fn snippet(edited: &EditedText) -> String {
    let first = edited.lines.first().copied().unwrap_or(1);
    let from = usize::try_from(first).unwrap_or(1).saturating_sub(CONTEXT_LINES + 1);
    let numbered = edited.text.lines().enumerate().skip(from).take(SHOWN_LINES.min(2 * CONTEXT_LINES + 5));
    let lines = numbered.map(|(n, line)| {
        let line: String = line.chars().take(LINE_CHARS).collect();
        format!("{}| {line}", n + 1)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn not_edited(
    path: &str,
    edit: TextEdit<'_>,
    (error, raw): (EditError, &str),
    programs: FilePrograms,
) -> ToolError {
    match error {
        EditError::Ambiguous(count, lines) => ToolError::Failed {
            message: format!(
                "old_text stands {count} times in '{path}', at lines {}{}: nothing was changed. Take more lines around the one \
                 that is meant, or set replace_all",
                list(&lines),
                if lines.len() < count { " …" } else { "" }
            ),
            data: json!({"matches": count, "lines": lines}),
        },
        EditError::Unchanged => {
            let hint = programs.hint(". To convert them use {}", "sed");
            ToolError::failed(format!(
                "Nothing would change in '{path}': its line ends are kept as they are{hint}"
            ))
        }
        EditError::TooLarge(size) => ToolError::failed(format!(
            "'{path}' would become {size} bytes, and a text file may have {} (limits.file_bytes): nothing was changed",
            edit.max_bytes
        )),
        EditError::NotFound => text_not_found(path, edit, raw),
    }
}

fn text_not_found(path: &str, edit: TextEdit<'_>, raw: &str) -> ToolError {
    let document = NormalizedText::of(raw);
    let Some(candidate) = nearest(&document.text, edit.old) else {
        return ToolError::failed(format!(
            "old_text does not stand in '{path}', nor anything like it: nothing was changed. Read the file first (file_read)"
        ));
    };
    let lines = candidate.text.split('\n').count() as u64;
    let end = candidate.start_line.saturating_add(lines).saturating_sub(1);
    let only =
        candidate.only_difference.map(|what| format!(", and differs only in {what}")).unwrap_or_default();
    ToolError::Failed {
        message: format!(
            "old_text does not stand in '{path}': nothing was changed. The nearest text is at lines {} to {end}, {}% alike{only}. \
             Copy it from there exactly",
            candidate.start_line, candidate.percent
        ),
        data: json!({
            "nearest": {"start_line": candidate.start_line, "end_line": end, "percent": candidate.percent, "text": candidate.text},
        }),
    }
}

fn list(lines: &[u64]) -> String {
    lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
