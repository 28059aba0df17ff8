//! The programs of a job that help where a file tool cannot: errors name them only if the job has them.

use crate::domain::tool::Strictness;
use crate::ports::ToolContext;
use crate::tools::code::CodeRunner;
use nanoclaw_sandbox::Level;

/// Tools of the job that run programs on its files.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilePrograms {
    has_bash: bool,
    has_python: bool,
}

impl FilePrograms {
    pub(super) fn of(runner: &dyn CodeRunner, context: &ToolContext) -> Self {
        // Commands count as lenient, and Python has files at that level only.
        let is_allowed = runner.levels().contains(&Level::Lenient);
        let (choice, level) = (&context.rights.tools, context.rights.strictness);
        let allows = |name| is_allowed && choice.allows(name);
        let has_bash = (allows("bash") || allows("exec")) && level != Some(Strictness::Strict);
        let is_lenient = level.is_none_or(|level| level == Strictness::Lenient);
        Self { has_bash, has_python: allows("execute_python") && is_lenient }
    }

    /// `sentence` with the tools that can do it in the place of `{}`; nothing if there is none. `commands`
    /// are those that bash would run.
    pub(super) fn hint(self, sentence: &str, commands: &str) -> String {
        let bash = format!("bash ({commands})");
        let tools = match (self.has_bash, self.has_python) {
            (true, true) => format!("{bash} or execute_python"),
            (true, false) => bash,
            (false, true) => "execute_python (strictness lenient)".to_owned(),
            (false, false) => return String::new(),
        };
        sentence.replace("{}", &tools)
    }

    /// The same for what only bash can do.
    pub(super) fn bash_hint(self, sentence: &str, commands: &str) -> String {
        Self { has_python: false, ..self }.hint(sentence, commands)
    }
}
