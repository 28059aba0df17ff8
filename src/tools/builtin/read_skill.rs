//! `read_skill`: the instructions of a skill, and its other files. Paths stay in the skill's folder.

use super::builtin_tool::{spec, typed};
use super::names;
use super::workspace_programs::FilePrograms;
use crate::domain::nearest::hint;
use crate::domain::tool::{Aliases, FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileEntry, FileError, Tool, ToolContext, ToolError, WorkspaceOwner};
use crate::tools::code::CodeRunner;
use crate::tools::registry::ToolDeps;
use crate::tools::skills::{FoundSkill, JobSkills, SKILL_FILE, Skills, split};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::sync::Arc;

/// Files of a skill that a result names.
const MAX_FILES: usize = 100;
/// Skipped folders that a result names.
const MAX_SKIPPED: usize = 20;
/// Characters of a name or a path in an error.
const SHOWN_CHARS: usize = 200;

#[derive(Deserialize)]
struct SkillArguments {
    name: Option<String>,
    path: Option<String>,
}

struct ReadSkill {
    skills: Arc<Skills>,
    runner: Arc<dyn CodeRunner>,
    max_bytes: u64,
}

/// The tool, if the configuration allows skills.
pub(super) fn register(deps: &ToolDeps) -> Option<Box<dyn Tool>> {
    let skills = Arc::clone(deps.skills.as_ref()?);
    let (runner, max_bytes) = (Arc::clone(&deps.code), deps.options.limits.file_bytes);
    Some(Box::new(ReadSkill { skills, runner, max_bytes }))
}

impl Tool for ReadSkill {
    fn spec(&self) -> ToolSpec {
        spec(
            "read_skill",
            "Read the instructions of a skill, or with path another file of it. Without a name: the names of all skills.",
            json!({
                "name": {"type": "string", "minLength": 1},
                "path": {"type": "string", "minLength": 1, "description": "As in references/forms.md"},
            }),
            &[],
        )
    }

    fn aliases(&self) -> Aliases {
        names::aliases("read_skill")
    }

    fn instructions(&self, owner: WorkspaceOwner) -> Option<String> {
        self.skills.listing(owner)
    }

    /// Not cacheable: the operator changes files beside all jobs.
    fn traits(&self) -> ToolTraits {
        ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let SkillArguments { name, path } = typed(arguments)?;
        let skills = self.skills.of(WorkspaceOwner::from(context));
        let Some(name) = name else { return Ok(all(&skills)) };
        let found = skills.find(&name).ok_or_else(|| not_found(&skills, &name))?;
        match path {
            Some(path) if path != SKILL_FILE => self.file(&found, &path),
            _ => self.skill(&found, context),
        }
    }
}

impl ReadSkill {
    /// The instructions, and what else the skill has.
    fn skill(&self, found: &FoundSkill<'_>, context: &ToolContext) -> Result<Value, ToolError> {
        let name = &found.skill.name;
        let text = self.read(found, SKILL_FILE)?;
        let instructions = split(&text).map_or(text.as_str(), |(_, instructions)| instructions).trim();
        let listing = found.files.files_below(name).map_err(|error| unreadable(SKILL_FILE, &error))?;
        let below = |file: &FileEntry| Some(file.path.strip_prefix(name)?.strip_prefix('/')?.to_owned());
        let mut files: Vec<String> = listing.files.iter().filter_map(below).collect();
        files.retain(|path| path != SKILL_FILE);
        let is_cut = listing.is_cut || files.len() > MAX_FILES;
        files.truncate(MAX_FILES);
        let mut data = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("instructions".to_owned(), json!(instructions)),
            ("directory".to_owned(), json!(found.directory)),
            ("files".to_owned(), json!(files)),
        ]);
        let compatibility = found.skill.compatibility.as_ref().map(|text| ("compatibility", json!(text)));
        let note = self.note(found, &files, context).map(|note| ("note", json!(note)));
        let more = is_cut.then(|| ("files_are_cut", json!(true)));
        data.extend(
            [compatibility, note, more].into_iter().flatten().map(|(key, value)| (key.to_owned(), value)),
        );
        Ok(Value::Object(data))
    }

    /// How programs use the files; only if the job can run some.
    fn note(&self, found: &FoundSkill<'_>, files: &[String], context: &ToolContext) -> Option<String> {
        let programs = FilePrograms::of(self.runner.as_ref(), context);
        let FoundSkill { directory, is_read_only, .. } = found;
        let rights = if *is_read_only { "Nothing can be written there" } else { "It is in the project" };
        let sentence = format!("Run and read files in '{directory}' with {{}}. {rights}.");
        let note = if files.is_empty() { String::new() } else { programs.hint(&sentence, "sh, python3 …") };
        Some(note).filter(|note| !note.is_empty())
    }

    /// Another file of the skill.
    fn file(&self, found: &FoundSkill<'_>, path: &str) -> Result<Value, ToolError> {
        // Models copy the directory from an earlier result.
        let below = path.strip_prefix(&found.directory).and_then(|rest| rest.strip_prefix('/'));
        let path = below.unwrap_or(path);
        if path.starts_with('/') || path.split('/').any(|name| name == "..") {
            let shown: String = path.chars().take(SHOWN_CHARS).collect();
            return Err(ToolError::Invalid(format!(
                "'{shown}' leads out of the skill: path is relative to its directory, as in the list 'files'"
            )));
        }
        Ok(json!({"name": found.skill.name, "path": path, "content": self.read(found, path)?}))
    }

    fn read(&self, found: &FoundSkill<'_>, path: &str) -> Result<String, ToolError> {
        let shown: String = path.chars().take(SHOWN_CHARS).collect();
        let fail = |error: &FileError| unreadable(&shown, error);
        let (file, _) =
            found.files.open(&format!("{}/{path}", found.skill.name)).map_err(|error| fail(&error))?;
        let mut bytes = Vec::new();
        let read = file.take(self.max_bytes.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| fail(&FileError::Io(error.to_string())))?;
        if bytes.len() as u64 > self.max_bytes {
            let limit = self.max_bytes;
            return Err(ToolError::failed(format!(
                "'{shown}' is too large: {limit} bytes can be read (limits.file_bytes)"
            )));
        }
        String::from_utf8(bytes).map_err(|_| fail(&FileError::NotText(shown.clone())))
    }
}

fn unreadable(path: &str, error: &FileError) -> ToolError {
    match error {
        FileError::NotFound(_) => ToolError::failed(format!(
            "The skill has no file '{path}'. read_skill without path lists its files"
        )),
        error => ToolError::failed(format!("'{path}' of the skill cannot be read: {error}")),
    }
}

/// All skills, also those that a prompt leaves out, and folders that are none.
fn all(skills: &JobSkills<'_>) -> Value {
    let names: Vec<&str> = skills.all().map(|skill| skill.name.as_str()).collect();
    let skipped = skills.skipped().iter().take(MAX_SKIPPED);
    let skipped: Vec<Value> = skipped
        .map(|rejected| json!({"folder": rejected.folder, "reason": rejected.error.to_string()}))
        .collect();
    if skipped.is_empty() { json!({"names": names}) } else { json!({"names": names, "skipped": skipped}) }
}

fn not_found(skills: &JobSkills<'_>, name: &str) -> ToolError {
    let names: Vec<&str> = skills.all().map(|skill| skill.name.as_str()).collect();
    let shown: String = name.chars().take(SHOWN_CHARS).collect();
    let skipped = skills.skipped().iter().find(|skipped| skipped.folder == name);
    let message = match skipped {
        Some(skipped) => format!("The folder '{shown}' of the project is no skill: {}", skipped.error),
        None if names.is_empty() => format!("There is no skill '{shown}', and no other one"),
        None => format!(
            "There is no skill '{shown}'; read_skill without a name lists all{}",
            hint(name, names.iter().copied())
        ),
    };
    ToolError::Failed { message, data: json!({"names": names}) }
}
