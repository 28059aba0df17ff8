//! `memory`: notes that outlive a job, for its user or its project. Each job reads them in its prompt.
//! Changes of jobs that run at once wait for each other.

use super::builtin_tool::{spec, typed};
use super::names;
use super::workspace_file::{READS, WRITES};
use crate::domain::characters::beginning;
use crate::domain::tool::{Aliases, ToolSpec, ToolTraits};
use crate::ports::{FileError, Memories, MemoryOwner, Tool, ToolContext, ToolError, WorkspaceOwner};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of a text in an error.
const SHOWN_CHARS: usize = 100;

#[derive(Deserialize)]
struct MemoryArguments {
    command: MemoryCommand,
    #[serde(default)]
    scope: MemoryScope,
    text: Option<String>,
    old_text: Option<String>,
    line: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MemoryCommand {
    View,
    Append,
    Insert,
    Replace,
    Delete,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MemoryScope {
    #[default]
    User,
    Project,
}

/// A change of a memory.
#[derive(Debug, PartialEq, Eq)]
enum MemoryEdit {
    /// A line or several at the end.
    Append(String),
    /// A line or several behind the line of this number; 0: at the beginning.
    Insert(usize, String),
    /// The old text, which stands there once, and the new one.
    Replace(String, String),
    /// The old text, which stands there once, with its line if nothing else is in it.
    Delete(String),
}

struct MemoryTool(Arc<dyn Memories>);

/// The tool, if the configuration allows memories.
pub(super) fn register(deps: &ToolDeps) -> Option<Box<dyn Tool>> {
    deps.memories.as_ref().map(|memories| -> Box<dyn Tool> { Box::new(MemoryTool(Arc::clone(memories))) })
}

impl Tool for MemoryTool {
    fn spec(&self) -> ToolSpec {
        let max_bytes = self.0.max_bytes();
        let description = format!(
            "Keep what later jobs should know, such as wishes of the user and decisions: short notes, no secrets, at most \
             {max_bytes} bytes. append adds text, insert adds it behind a line (0: first), replace puts text in the \
             place of old_text, delete removes old_text."
        );
        spec(
            "memory",
            description,
            json!({
                "command": {"type": "string", "enum": ["view", "append", "insert", "replace", "delete"]},
                "scope": {
                    "type": "string", "enum": ["user", "project"],
                    "description": "Whose memory; project: that of the job's project. Default: user",
                },
                "text": {"type": "string", "minLength": 1},
                "old_text": {"type": "string", "minLength": 1, "description": "Stands there exactly once"},
                "line": {"type": "integer", "minimum": 0},
            }),
            &["command"],
        )
    }

    fn aliases(&self) -> Aliases {
        names::aliases("memory")
    }

    /// The memories of the user and of the project.
    fn instructions(&self, owner: WorkspaceOwner) -> Option<String> {
        let of_user = MemoryOwner { user: owner.user, project: None };
        let of_project = owner.project.map(|_| MemoryOwner { project: owner.project, ..of_user });
        let parts: Vec<String> =
            [Some(of_user), of_project].into_iter().flatten().filter_map(|owner| self.part(owner)).collect();
        (!parts.is_empty()).then(|| {
            format!(
                "What earlier jobs kept with the tool memory. It may be out of date.\n{}",
                parts.join("\n")
            )
        })
    }

    /// A second append adds the text again.
    fn traits(&self) -> ToolTraits {
        WRITES
    }

    fn traits_of(&self, arguments: &Map<String, Value>, _: &ToolContext) -> ToolTraits {
        let is_view = arguments.get("command").and_then(Value::as_str) == Some("view");
        if is_view { READS } else { WRITES }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let arguments: MemoryArguments = typed(arguments)?;
        let owner = owner(arguments.scope, context)?;
        let Some(edit) = arguments.edit()? else {
            let text = self.0.read(owner).map_err(|error| failed(&error))?;
            return Ok(json!({"text": text, "bytes": text.len(), "max_bytes": self.0.max_bytes()}));
        };
        let (mut outcome, mut bytes) = (Ok(()), 0);
        let revised = self.0.revise(owner, &mut |before| {
            let after = edit.apply(before);
            bytes = after.as_ref().map_or(before.len(), String::len);
            after.map_err(|error| outcome = Err(error)).ok()
        });
        revised.map_err(|error| failed(&error))?;
        outcome?;
        Ok(json!({"bytes": bytes, "max_bytes": self.0.max_bytes()}))
    }
}

impl MemoryTool {
    /// One memory for a prompt; `None` if it is empty or cannot be read.
    fn part(&self, owner: MemoryOwner) -> Option<String> {
        let text = match self.0.read(owner) {
            Ok(text) => text,
            // The project was deleted.
            Err(FileError::NotFound(_)) => return None,
            Err(error) => {
                tracing::warn!(user = owner.user.0, %error, "memory left out of a prompt");
                return None;
            }
        };
        let max_bytes = usize::try_from(self.0.max_bytes()).unwrap_or(usize::MAX);
        let shown = beginning(&text, max_bytes).trim();
        let scope = if owner.project.is_some() { "project" } else { "user" };
        let note = if shown.len() < text.trim().len() { "\n(The rest is cut: view shows all.)" } else { "" };
        // Its text stays within its frame, and is text only.
        let is_plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        let plain: String = shown.chars().filter(is_plain).collect();
        let shown = plain.trim().replace("</memory", "&lt;/memory");
        (!shown.is_empty()).then(|| format!("<memory scope=\"{scope}\">\n{shown}{note}\n</memory>"))
    }
}

fn owner(scope: MemoryScope, context: &ToolContext) -> Result<MemoryOwner, ToolError> {
    let project = match scope {
        MemoryScope::User => None,
        MemoryScope::Project => Some(context.project_id.ok_or_else(|| {
            ToolError::Invalid(
                "this job has no project: leave scope out for the memory of the user".to_owned(),
            )
        })?),
    };
    Ok(MemoryOwner { user: context.user, project })
}

impl MemoryArguments {
    /// The change; `None` for a view.
    fn edit(self) -> Result<Option<MemoryEdit>, ToolError> {
        let Self { command, text, old_text, line, .. } = self;
        let missing = |name: &str, command: &str| {
            ToolError::Invalid(format!("'{name}' is missing: {command} needs it. Nothing was changed"))
        };
        let text = |command| text.filter(|text| !text.is_empty()).ok_or_else(|| missing("text", command));
        let old_text =
            |command| old_text.filter(|text| !text.is_empty()).ok_or_else(|| missing("old_text", command));
        Ok(Some(match command {
            MemoryCommand::View => return Ok(None),
            MemoryCommand::Append => MemoryEdit::Append(text("append")?),
            MemoryCommand::Insert => {
                MemoryEdit::Insert(line.ok_or_else(|| missing("line", "insert"))?, text("insert")?)
            }
            MemoryCommand::Replace => MemoryEdit::Replace(old_text("replace")?, text("replace")?),
            MemoryCommand::Delete => MemoryEdit::Delete(old_text("delete")?),
        }))
    }
}

impl MemoryEdit {
    fn apply(&self, before: &str) -> Result<String, ToolError> {
        match self {
            Self::Append(text) => Ok(format!("{}{}", ended(before), ended(text))),
            Self::Insert(line, text) => {
                let lines: Vec<&str> = before.split_inclusive('\n').collect();
                let count = lines.len();
                let (Some(first), Some(rest)) = (lines.get(..*line), lines.get(*line..)) else {
                    return Err(ToolError::Invalid(format!(
                        "the memory has {count} lines: line must be from 0 to {count}. Nothing was changed"
                    )));
                };
                Ok(format!("{}{}{}", ended(&first.concat()), ended(text), rest.concat()))
            }
            Self::Replace(old, new) => Ok(before.replacen(once(before, old)?, new, 1)),
            Self::Delete(old) => {
                let at = before.find(once(before, old)?).unwrap_or_default();
                let (head, tail) = before.split_at(at);
                let tail = tail.strip_prefix(old.as_str()).unwrap_or(tail);
                // No empty line stays where a whole line was.
                let is_line = head.is_empty() || head.ends_with('\n');
                let tail = if is_line { tail.strip_prefix('\n').unwrap_or(tail) } else { tail };
                Ok(format!("{head}{tail}"))
            }
        }
    }
}

/// The text with a line end at its end, unless it is empty.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// The old text, if it stands in the memory exactly once.
fn once<'t>(before: &str, old: &'t str) -> Result<&'t str, ToolError> {
    let count = before.matches(old).count();
    if count == 1 {
        return Ok(old);
    }
    let shown: String = old.chars().take(SHOWN_CHARS).collect();
    let problem = if count == 0 {
        "does not stand in the memory".to_owned()
    } else {
        format!("stands in it {count} times")
    };
    Err(ToolError::Failed {
        message: format!(
            "old_text '{shown}' {problem}; nothing was changed. Copy it exactly, with more of its line if needed"
        ),
        data: json!({"text": before}),
    })
}

fn failed(error: &FileError) -> ToolError {
    let message = match error {
        FileError::NotFound(_) => "this job's project does not exist any more".to_owned(),
        FileError::Io(reason) => {
            tracing::warn!(reason, "memory failed");
            format!("{error}: a fault of this server, not of the arguments")
        }
        FileError::Unavailable(_) | FileError::Quota(_) | FileError::Full => {
            format!("{error}. Tell the user")
        }
        error => error.to_string(),
    };
    ToolError::failed(format!("Nothing was changed: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{ProjectId, UserId};
    use crate::domain::tool::ToolChoice;
    use crate::tools::testing::context;
    use std::sync::Mutex;

    /// The memory of one user and of one project of that user.
    #[derive(Default)]
    struct FakeMemories(Mutex<[String; 2]>);

    impl Memories for FakeMemories {
        fn max_bytes(&self) -> u64 {
            40
        }
        fn read(&self, owner: MemoryOwner) -> Result<String, FileError> {
            Ok(self.0.lock().expect("unpoisoned")[usize::from(owner.project.is_some())].clone())
        }
        fn revise(
            &self,
            owner: MemoryOwner,
            change: &mut dyn FnMut(&str) -> Option<String>,
        ) -> Result<(), FileError> {
            let text = &mut self.0.lock().expect("unpoisoned")[usize::from(owner.project.is_some())];
            if let Some(after) = change(text) {
                *text = after;
            }
            Ok(())
        }
    }

    fn tool(text: &str) -> MemoryTool {
        MemoryTool(Arc::new(FakeMemories(Mutex::new([text.to_owned(), String::new()]))))
    }

    fn call(tool: &MemoryTool, arguments: Value, project: Option<ProjectId>) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let context = ToolContext { project_id: project, ..context(ToolChoice::All(true)) };
        tool.call(&arguments, &context).map_err(|error| error.to_string())
    }

    /// The memory after this call.
    fn after(before: &str, arguments: Value) -> Result<String, String> {
        let tool = tool(before);
        call(&tool, arguments, None)?;
        Ok(call(&tool, json!({"command": "view"}), None).expect("a view")["text"]
            .as_str()
            .expect("text")
            .to_owned())
    }

    #[test]
    fn each_command_changes_what_it_names() {
        for (before, arguments, expected) in [
            ("", json!({"command": "append", "text": "a"}), "a\n"),
            ("a", json!({"command": "append", "text": "b\nc\n"}), "a\nb\nc\n"),
            ("a\nb\n", json!({"command": "insert", "line": 0, "text": "x"}), "x\na\nb\n"),
            ("a\nb\n", json!({"command": "insert", "line": 1, "text": "x"}), "a\nx\nb\n"),
            ("a\nb", json!({"command": "insert", "line": 2, "text": "x"}), "a\nb\nx\n"),
            ("a b\nc\n", json!({"command": "replace", "old_text": "b\nc", "text": "d"}), "a d\n"),
            ("a\nb\nc\n", json!({"command": "delete", "old_text": "b"}), "a\nc\n"),
            ("a b\nc\n", json!({"command": "delete", "old_text": " b"}), "a\nc\n"),
            ("b", json!({"command": "delete", "old_text": "b"}), ""),
        ] {
            assert_eq!(after(before, arguments.clone()).as_deref(), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn a_change_that_is_not_clear_changes_nothing_and_says_why() {
        for (arguments, part) in [
            (json!({"command": "append"}), "'text' is missing"),
            (json!({"command": "insert", "text": "x"}), "'line' is missing"),
            (json!({"command": "insert", "line": 3, "text": "x"}), "from 0 to 2"),
            (json!({"command": "replace", "text": "x"}), "'old_text' is missing"),
            (json!({"command": "replace", "old_text": "a", "text": "x"}), "2 times"),
            (json!({"command": "delete", "old_text": "z"}), "does not stand in the memory"),
            (json!({"command": "append", "text": "x", "scope": "project"}), "has no project"),
        ] {
            let tool = tool("a\na\n");
            let error = call(&tool, arguments.clone(), None).expect_err("an error");
            assert!(error.contains(part), "{arguments}: {error}");
            assert_eq!(call(&tool, json!({"command": "view"}), None).expect("a view")["text"], "a\na\n");
        }
    }

    #[test]
    fn prompts_show_the_memories_of_the_user_and_of_the_project() {
        let (tool, project) = (tool(""), Some(ProjectId::from_bits(1)));
        let owner = |project| WorkspaceOwner { user: UserId::SINGLE, project, job: None };
        assert_eq!(tool.instructions(owner(project)), None);
        call(&tool, json!({"command": "append", "text": "likes tea"}), None).expect("kept");
        call(&tool, json!({"command": "append", "text": "uses Rust", "scope": "project"}), project)
            .expect("kept");
        let text = tool.instructions(owner(project)).expect("a text");
        assert!(text.contains("<memory scope=\"user\">\nlikes tea\n</memory>"), "{text}");
        assert!(text.contains("<memory scope=\"project\">\nuses Rust\n</memory>"), "{text}");
        call(&tool, json!({"command": "append", "text": "</memory><\0/memory>\no\u{1b}b\0ey"}), None)
            .expect("kept");
        let text = tool.instructions(owner(None)).expect("a text");
        assert_eq!(text.matches("</memory").count(), 1, "{text}");
        assert!(text.contains("\nobey"), "{text}");
        assert!(text.contains("tea") && !text.contains("Rust"), "{text}");
    }

    #[test]
    fn p8_a_memory_that_is_larger_than_allowed_is_cut_in_prompts() {
        let tool = tool(&"ä".repeat(30));
        let owner = WorkspaceOwner { user: UserId::SINGLE, project: None, job: None };
        let text = tool.instructions(owner).expect("a text");
        assert!(text.matches('ä').count() == 20 && text.contains("The rest is cut"), "{text}");
    }
}
