//! Validates names and patterns of tools. Those that only files of `tools_dir` or MCP servers can have are
//! checked when these have listed their tools.

use super::keys::{ConfigKeys, TOOL_KEYS, ToolEntries};
use super::validate::ConfigProblems;
use crate::domain::nearest::hint;
use crate::domain::tool::ToolChoice;
use crate::mcp::beginning_of;
use crate::tools::{NamePattern, builtin_names, builtin_of_foreign_name};

/// The names that tools can have.
struct ToolNamesAtStart<'k> {
    /// Names of tools that are there from the start.
    names: Vec<&'k str>,
    has_files: bool,
    /// How the names of tools of each MCP server begin.
    servers: Vec<String>,
}

impl<'k> ToolNamesAtStart<'k> {
    fn of(keys: &'k ConfigKeys) -> Self {
        let mut names: Vec<&str> = builtin_names().collect();
        names.extend(keys.tools.commands.iter().map(|command| command.name.as_str()));
        Self {
            names,
            has_files: keys.tools_dir.is_some(),
            servers: keys.mcp_servers.keys().map(|server| beginning_of(server)).collect(),
        }
    }

    /// Whether a tool has such a name, or may have it later.
    fn may_match(&self, pattern: &NamePattern) -> bool {
        self.names.iter().any(|name| pattern.matches(name))
            || pattern.is_all_of_mcp()
            || self.has_files && !pattern.is_of_mcp()
            || self.servers.iter().any(|beginning| pattern.may_begin_with(beginning))
    }

    /// What the operator may have meant.
    fn meant(&self, name: &str, groups: &[&str]) -> String {
        if let Some(tool) = builtin_of_foreign_name(name) {
            return format!("; did you mean '{tool}'?");
        }
        let beginnings = self.servers.iter().map(String::as_str);
        hint(name, self.names.iter().copied().chain(groups.iter().copied()).chain(beginnings))
    }
}

impl ConfigProblems {
    pub(super) fn tool_names(&mut self, keys: &ConfigKeys) {
        let known = ToolNamesAtStart::of(keys);
        let lists = TOOL_KEYS.iter().flat_map(|key| {
            (key.lists)(keys)
                .into_iter()
                .map(move |(name, names)| (key.key.replace('*', name), key.entries, names))
        });
        for (key, entries, names) in lists {
            for (at, name) in names.iter().enumerate() {
                let problem = match entries {
                    // Patterns that are none have a problem of their own.
                    ToolEntries::Patterns => NamePattern::new(name)
                        .filter(|pattern| !known.may_match(pattern))
                        .map(|pattern| ("matches no tool", known.meant(&pattern.letters(), &[]))),
                    ToolEntries::NamesAndGroups => (!is_tool_or_group(name, &known))
                        .then(|| ("is no tool and no group", known.meant(name, &ToolChoice::GROUPS))),
                    ToolEntries::OfServer => None,
                };
                if let Some((problem, meant)) = problem {
                    self.add(format!("{key}[{at}]"), name, format!("{problem}{meant}"));
                }
            }
        }
    }
}

/// Whether a default set may have the name. A set cannot name itself.
fn is_tool_or_group(name: &str, known: &ToolNamesAtStart<'_>) -> bool {
    let may_be_tool =
        || NamePattern::new(name).is_some_and(|name| !name.has_wildcard() && known.may_match(&name));
    name != ToolChoice::DEFAULT_GROUP && (ToolChoice::is_group(name) || may_be_tool())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError, Sources};
    use crate::mcp::McpServerOptions;
    use serde_json::{Value, json};
    use std::path::PathBuf;

    fn problems(keys: &ConfigKeys) -> Vec<String> {
        let mut problems = ConfigProblems(Vec::new());
        problems.tool_names(keys);
        problems.0.iter().map(ToString::to_string).collect()
    }

    fn approving(patterns: &[&str]) -> ConfigKeys {
        let approval = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        ConfigKeys { approval, ..ConfigKeys::default() }
    }

    /// Sets the list at a key with tools of the default configuration, whose model is `demo`.
    fn set(key: &str, entry: &str) -> ConfigKeys {
        let mut value = serde_json::to_value(ConfigKeys::default()).unwrap();
        value["mcp_servers"] = json!({"git": {"url": "http://127.0.0.1:1/mcp"}});
        let key = key.replace("tools.per_model.*", "tools.per_model.demo").replace('*', "git");
        let pointer = format!("/{}", key.replace('.', "/"));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = if parent.is_empty() { &mut value } else { value.pointer_mut(parent).unwrap() };
        parent[name] = json!([entry]);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_marked_key_refuses_a_name_that_no_tool_has_and_says_what_was_meant() {
        for key in &TOOL_KEYS {
            let keys = set(key.key, "calculater");
            assert_eq!((key.lists)(&keys).len(), 1, "{}", key.key);
            assert_eq!((key.lists)(&keys)[0].1, ["calculater"], "{}", key.key);
            let found = problems(&keys);
            if key.entries == ToolEntries::OfServer {
                assert_eq!(found, Vec::<String>::new(), "known once the server has listed its tools");
                continue;
            }
            assert!(found.len() == 1 && found[0].contains("did you mean 'calculator'?"), "{found:?}");
            assert!(found[0].starts_with(&key.key.replace('*', "demo")), "{found:?}");
            assert_eq!(problems(&set(key.key, "calculator")), Vec::<String>::new());
            assert_eq!(problems(&set(key.key, "exec")), Vec::<String>::new(), "an alias");
        }
    }

    /// The paths of all lists of texts that could name tools.
    fn lists(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(_) => found.push(path.to_owned()),
            Value::Object(map) => {
                for (name, value) in map {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    lists(&path, value, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn each_list_that_speaks_of_tools_or_approvals_is_marked() {
        let mut keys = ConfigKeys::default();
        keys.mcp_servers.insert("git".to_owned(), McpServerOptions::at("http://127.0.0.1:1/mcp"));
        keys.tools.default = Some(Vec::new());
        keys.tools.per_model.insert("git".to_owned(), Vec::new());
        let mut found = Vec::new();
        lists("", &serde_json::to_value(&keys).unwrap(), &mut found);
        found.retain(|path| ["tool", "approv"].iter().any(|word| path.contains(word)));
        // The commands are tools themselves.
        found.retain(|path| path != "tools.commands");
        let mut marked: Vec<String> = TOOL_KEYS.iter().map(|key| key.key.replace('*', "git")).collect();
        found.sort();
        marked.sort();
        assert_eq!(found, marked);
    }

    #[test]
    fn a_pattern_is_refused_unless_a_tool_matches_it_or_may_come() {
        for (pattern, meant) in [
            ("bsh", "'bash'"),
            ("shell", "'bash'"),
            ("run_bash", "'bash'"),
            ("fil_*", "'file"),
            ("files", "'file"),
            ("mcp_git_push", ""),
            ("mcp_*_push", ""),
        ] {
            let found = problems(&approving(&[pattern]));
            assert!(found.len() == 1 && found[0].contains("matches no tool"), "{pattern}: {found:?}");
            assert!(found[0].contains(meant), "{pattern}: {found:?}");
        }
        let known = ["bash", "exec", "run_shell", "file_*", "mcp_*", "*", "memory", "?ron"];
        assert_eq!(problems(&approving(&known)), Vec::<String>::new());

        let mut with_server = approving(&["mcp_git_push", "mcp_git_*", "mcp_*_push", "*push"]);
        with_server.mcp_servers.insert("git".to_owned(), McpServerOptions::at("http://127.0.0.1:1/mcp"));
        assert_eq!(problems(&with_server), Vec::<String>::new());
        with_server.approval = vec!["mcp_gti_push".to_owned(), "push".to_owned()];
        let found = problems(&with_server);
        assert!(found.len() == 2 && found[0].contains("did you mean 'mcp_git_'"), "{found:?}");

        let mut with_files = approving(&["pay", "mcp_git_push"]);
        with_files.tools_dir = Some(PathBuf::from("/srv/tools"));
        assert_eq!(problems(&with_files).len(), 1, "a file may bring the first one only");
        with_files.tools.default = Some(["pay", "file_*", "default"].map(str::to_owned).to_vec());
        assert_eq!(
            problems(&with_files).len(),
            3,
            "patterns are for approvals, and a set cannot name itself"
        );
    }

    #[test]
    fn a_wrong_name_is_an_invalid_configuration() {
        let file = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
        std::fs::write(&file, "approval: [bsh]\ndata_dir: /tmp\n").unwrap();
        let loaded = Config::load_keyless(&Sources::of_process(Some(file.path().to_owned()), Vec::new()));
        assert!(matches!(loaded, Err(ConfigError::Invalid(_))), "{loaded:?}");
    }
}
