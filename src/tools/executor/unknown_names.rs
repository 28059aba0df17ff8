//! Names and patterns of the configuration that no tool has. Each new catalogue is checked, because files and
//! MCP servers bring their tools later, and take them away.

use super::approval::ApprovalRules;
use super::name_pattern::NamePattern;
use super::options::DefaultTools;
use super::registered_tool::RegisteredTool;
use crate::domain::nearest::hint;
use crate::domain::tool::ToolChoice;
use crate::ports::ToolNamespace;
use crate::tools::builtin::builtin_names;
use std::sync::Arc;

/// The names of the configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct NameCheck {
    pub(super) approval: ApprovalRules,
    pub(super) default_tools: DefaultTools,
    /// Sources that this process does not start.
    pub(super) dormant: Vec<ToolNamespace>,
}

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UnknownNames {
    /// A pattern of `approval` matches no tool, so nobody knows which tool it was to protect: every call
    /// waits for approval.
    pub(super) asks_always: bool,
    /// A sentence for each name.
    pub(super) notes: Vec<String>,
}

impl NameCheck {
    /// Compares the names with the tools. `sources`: where further tools may come from.
    pub(super) fn find_unknown(
        &self,
        tools: &[Arc<RegisteredTool>],
        sources: &[ToolNamespace],
    ) -> UnknownNames {
        let mut known: Vec<&str> = builtin_names().collect();
        known.extend(tools.iter().flat_map(|tool| tool.approval_names()));
        let is_unknown = |pattern: &NamePattern| {
            !pattern.is_all_of_mcp()
                && !known.iter().any(|name| pattern.matches(name))
                && !self.may_come(pattern, sources)
        };
        let mut found = UnknownNames::default();
        for pattern in self.approval.patterns().iter().filter(|pattern| is_unknown(pattern)) {
            let (text, meant) = (pattern.text(), hint(&pattern.letters(), known.iter().copied()));
            found.asks_always = true;
            found.notes.push(format!(
                "approval: no tool matches '{text}'{meant}; until one does, every call waits for approval"
            ));
        }
        let of_models = self.default_tools.per_model.iter();
        let of_models = of_models.map(|(model, names)| (format!("tools.per_model.{model}"), names));
        let of_all = self.default_tools.every_model.iter().map(|names| ("tools.default".to_owned(), names));
        for (key, names) in of_all.chain(of_models) {
            let is_unknown = |name: &&String| NamePattern::new(name).is_none_or(|name| is_unknown(&name));
            for name in names.iter().filter(|name| !ToolChoice::is_group(name)).filter(is_unknown) {
                let meant = hint(name, known.iter().copied());
                found.notes.push(format!("{key}: there is no tool '{name}'{meant}"));
            }
        }
        found
    }

    /// Whether only sources that have not listed their tools yet can bring a tool that the pattern matches:
    /// until then none of their tools can run.
    fn may_come(&self, pattern: &NamePattern, sources: &[ToolNamespace]) -> bool {
        let may_bring = |source: &&ToolNamespace| {
            (!source.beginning.is_empty() || !pattern.is_of_mcp())
                && pattern.may_begin_with(&source.beginning)
        };
        let mut sources = sources.iter().chain(&self.dormant).filter(may_bring).peekable();
        sources.peek().is_some() && sources.all(|source| !source.is_listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(beginning: &str, is_listed: bool) -> ToolNamespace {
        ToolNamespace { beginning: beginning.to_owned(), is_listed }
    }

    fn unknown(approval: &[&str], sources: &[ToolNamespace]) -> Vec<String> {
        let texts: Vec<String> = approval.iter().map(|text| (*text).to_owned()).collect();
        let approval = ApprovalRules::new(&texts).expect("patterns");
        let check = NameCheck { approval, dormant: vec![source("mcp_off_", false)], ..NameCheck::default() };
        let found = check.find_unknown(&[], sources);
        assert_eq!(found.asks_always, !found.notes.is_empty());
        found.notes
    }

    #[test]
    fn a_pattern_that_no_tool_matches_is_unknown_once_its_source_has_listed_its_tools() {
        let starting = [source("mcp_git_", false)];
        let listed = [source("mcp_git_", true)];
        let files = [source("mcp_git_", false), source("", true)];
        for known in ["bash", "exec", "run_python", "file_*", "memory", "mcp_*", "mcp_off_x", "mcp_git_push"]
        {
            assert_eq!(unknown(&[known], &starting), Vec::<String>::new(), "{known}");
        }
        for (pattern, sources, is_unknown) in [
            ("mcp_git_push", &listed, true),
            ("*push", &starting, false),
            ("*push", &listed, true),
            ("mcp_off_x", &listed, false),
            ("bsh", &starting, true),
        ] {
            assert_eq!(unknown(&[pattern], sources).len(), usize::from(is_unknown), "{pattern} {sources:?}");
        }
        assert_eq!(unknown(&["pay"], &files).len(), 1, "the directory of files was read");
        assert_eq!(
            unknown(&["mcp_git_push"], &files),
            Vec::<String>::new(),
            "files bring no tool of a server"
        );
        let note = unknown(&["bsh"], &files).concat();
        assert!(note.contains("did you mean 'bash'?; until one does"), "{note}");
    }

    #[test]
    fn names_of_default_sets_are_checked_and_do_not_ask_for_approval() {
        let every_model = ["files", "calculater", "bash"].map(str::to_owned).to_vec();
        let default_tools = DefaultTools { every_model: Some(every_model), ..DefaultTools::default() };
        let check = NameCheck { default_tools, ..NameCheck::default() };
        let UnknownNames { asks_always, notes } = check.find_unknown(&[], &[source("", true)]);
        assert!(!asks_always);
        assert_eq!(notes, ["tools.default: there is no tool 'calculater'; did you mean 'calculator'?"]);
    }
}
