//! Adds a server to the text of a configuration file. Comments and order stay. The result is parsed again: an
//! edit that changes anything else is refused.

use crate::config::ConfigFormat;
use serde_json::{Map, Value, json};

/// The keys that hold servers, ours first.
const KEYS: [&str; 2] = ["mcp_servers", "mcpServers"];

/// The server to add.
pub(super) struct NewServer<'a> {
    pub(super) name: &'a str,
    pub(super) entry: &'a Map<String, Value>,
    /// Whether it may replace one with the same name.
    pub(super) replaces: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConfigEditError {
    #[error("the file is not valid: {0}")]
    Unreadable(String),
    #[error("there is a server '{0}' already")]
    Exists(String),
    /// With the lines to add.
    #[error("this file cannot be edited safely")]
    ByHand(String),
}

impl ConfigEditError {
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Unreadable(_) => "see: nanoclaw config check".to_owned(),
            Self::Exists(_) => "replace it with --force, or choose another name".to_owned(),
            Self::ByHand(lines) => format!("add this by hand:\n{lines}"),
        }
    }
}

/// The text with the server.
pub(super) fn add_server(
    text: &str,
    format: ConfigFormat,
    server: &NewServer<'_>,
) -> Result<String, ConfigEditError> {
    let before = format.parse(text).map_err(ConfigEditError::Unreadable)?;
    let used = KEYS.into_iter().find(|key| before.get(key).is_some_and(Value::is_object));
    let key = used.unwrap_or(KEYS[0]);
    let exists = KEYS.iter().any(|key| before.get(key).is_some_and(|all| all.get(server.name).is_some()));
    if exists && !server.replaces {
        return Err(ConfigEditError::Exists(server.name.to_owned()));
    }
    let mut wanted = before;
    if let Some(root) = wanted.as_object_mut() {
        let servers = root.entry(key.to_owned()).or_insert_with(|| json!({}));
        if !servers.is_object() {
            *servers = json!({});
        }
        if let Some(servers) = servers.as_object_mut() {
            servers.insert(server.name.to_owned(), Value::Object(server.entry.clone()));
        }
    }
    let edited = match format {
        ConfigFormat::Toml if exists => None,
        ConfigFormat::Toml => Some(format!("{}\n{}", with_line_end(text), toml(key, server))),
        ConfigFormat::Yaml => edit_yaml(text, key, server, exists),
    };
    let is_wanted = |edited: &String| format.parse(edited).is_ok_and(|after| after == wanted);
    edited.filter(is_wanted).ok_or_else(|| {
        let lines = match format {
            ConfigFormat::Toml => toml(key, server),
            ConfigFormat::Yaml => format!("{key}:\n{}", block(server, 2)),
        };
        ConfigEditError::ByHand(lines)
    })
}

fn edit_yaml(text: &str, key: &str, server: &NewServer<'_>, exists: bool) -> Option<String> {
    if text.trim_start().starts_with('{') {
        return edit_json(text, key, server);
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some((at, rest)) = lines.iter().enumerate().find_map(|(at, line)| Some((at, value_of(line, key)?)))
    else {
        return Some(format!("{}\n{key}:\n{}", with_line_end(text), block(server, 2)));
    };
    let (head, tail) = (lines.get(..at)?.concat(), lines.get(at + 1..)?);
    let value = rest.split(" #").next().unwrap_or_default().trim();
    let comment = rest.find(" #").and_then(|start| rest.get(start..)).unwrap_or("\n");
    let is_content = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let next = tail.iter().find(is_content).copied().unwrap_or_default();
    match value {
        "" if next.trim_start().starts_with('{') => edit_flow(text, &head, server),
        "" => {
            let indent = next.len() - next.trim_start().len();
            let indent = if indent == 0 { 2 } else { indent };
            let tail = if exists { without(tail, server.name, indent)? } else { tail.concat() };
            let key_line = with_line_end(lines.get(at)?);
            Some(format!("{head}{key_line}{}{tail}", block(server, indent)))
        }
        "{}" | "~" | "null" => {
            let comment = with_line_end(comment);
            Some(format!("{head}{key}:{comment}{}{}", block(server, 2), tail.concat()))
        }
        _ if value.starts_with('{') && !exists => edit_flow(text, &head, server),
        _ => None,
    }
}

/// The value after the key, if this line begins with the key at the top level.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let plain = line.strip_prefix(['"', '\'']).unwrap_or(line).strip_prefix(key)?;
    plain.strip_prefix(['"', '\'']).unwrap_or(plain).trim_start().strip_prefix(':')
}

/// Adds to the mapping in braces that begins after `head`.
fn edit_flow(text: &str, head: &str, server: &NewServer<'_>) -> Option<String> {
    let open = head.len() + text.get(head.len()..)?.find('{')? + 1;
    let (before, after) = (text.get(..open)?, text.get(open..)?);
    let comma = if after.trim_start().starts_with('}') { "" } else { "," };
    let entry = Value::Object(server.entry.clone());
    Some(format!("{before}\n  {}: {entry}{comma}{after}", json!(server.name)))
}

/// A file that is JSON has no comments.
fn edit_json(text: &str, key: &str, server: &NewServer<'_>) -> Option<String> {
    let mut root: Map<String, Value> = serde_json::from_str(text).ok()?;
    let servers = root.entry(key.to_owned()).or_insert_with(|| json!({})).as_object_mut()?;
    servers.insert(server.name.to_owned(), Value::Object(server.entry.clone()));
    serde_json::to_string_pretty(&root).ok().map(|text| text + "\n")
}

/// The lines below the key without the block of a server.
fn without(lines: &[&str], name: &str, indent: usize) -> Option<String> {
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let is_entry = |line: &&str| indent_of(line) == indent && value_of(line.trim_start(), name).is_some();
    let start = lines.iter().position(is_entry)?;
    let body = lines.get(start + 1..)?;
    let ends = |line: &&str| !line.trim().is_empty() && indent_of(line) <= indent;
    let length = body.iter().position(ends).unwrap_or(body.len());
    Some([lines.get(..start)?.concat(), body.get(length..)?.concat()].concat())
}

/// The server as a block of YAML.
fn block(server: &NewServer<'_>, indent: usize) -> String {
    let mut lines = vec![format!("{:indent$}{}:\n", "", scalar(server.name))];
    let inner = indent + 2;
    for (key, value) in server.entry {
        let value = value.as_str().map_or_else(|| value.to_string(), scalar);
        lines.push(format!("{:inner$}{key}: {value}\n", ""));
    }
    lines.concat()
}

/// A text for YAML, quoted unless it can only be a text.
fn scalar(text: &str) -> String {
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if starts_plain && is_plain && !is_word { text.to_owned() } else { json!(text).to_string() }
}

/// The server as tables of TOML.
fn toml(key: &str, server: &NewServer<'_>) -> String {
    let name = json!(server.name);
    let (mut lines, mut tables) = (vec![format!("[{key}.{name}]\n")], Vec::new());
    for (key_inside, value) in server.entry {
        match value {
            Value::Object(fields) => {
                tables.push(format!("\n[{key}.{name}.{key_inside}]\n"));
                for (field, value) in fields {
                    tables.push(format!("{} = {value}\n", json!(field)));
                }
            }
            other => lines.push(format!("{key_inside} = {other}\n")),
        }
    }
    lines.append(&mut tables);
    lines.concat()
}

fn with_line_end(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(entry: &Value) -> Map<String, Value> {
        entry.as_object().expect("an object").clone()
    }

    fn added(text: &str, format: ConfigFormat, replaces: bool) -> Result<String, ConfigEditError> {
        let entry = server(&json!({"command": "npx", "args": ["-y", "x y"], "env": {"A": "${B}"}}));
        add_server(text, format, &NewServer { name: "new", entry: &entry, replaces })
    }

    const BLOCK: &str = "  new:\n    command: npx\n    args: [\"-y\",\"x y\"]\n    env: {\"A\":\"${B}\"}\n";

    #[test]
    fn a_server_is_added_and_the_rest_of_the_file_stays() {
        for (text, edited) in [
            ("", format!("\nmcp_servers:\n{BLOCK}")),
            ("# mine\nworkers: 3 # few", format!("# mine\nworkers: 3 # few\n\nmcp_servers:\n{BLOCK}")),
            ("mcp_servers: {}\nworkers: 3\n", format!("mcp_servers:\n{BLOCK}workers: 3\n")),
            ("mcp_servers: {} # none\n", format!("mcp_servers: # none\n{BLOCK}")),
            ("mcp_servers:\n", format!("mcp_servers:\n{BLOCK}")),
            (
                "mcp_servers: # all\n  # first\n  a: {command: b}\n# end\n",
                format!("mcp_servers: # all\n{BLOCK}  # first\n  a: {{command: b}}\n# end\n"),
            ),
        ] {
            assert_eq!(added(text, ConfigFormat::Yaml, false).as_ref(), Ok(&edited), "{text}");
        }
    }

    #[test]
    fn pasted_blocks_and_deeper_indents_are_kept() {
        let text = "mcpServers: {\n  \"a\": {\"command\": \"b\"}\n}\n";
        let edited = added(text, ConfigFormat::Yaml, false).expect("edited");
        assert!(edited.starts_with("mcpServers: {\n  \"new\": {\"command\":\"npx\""), "{edited}");
        assert!(edited.ends_with("\n  \"a\": {\"command\": \"b\"}\n}\n"), "{edited}");
        let json = added("{\"mcpServers\": {\"a\": {\"command\": \"b\"}}}", ConfigFormat::Yaml, false);
        assert!(json.expect("edited").contains("\"new\": {\n"));
        let deep =
            added("mcp_servers:\n    a:\n        command: b\n", ConfigFormat::Yaml, false).expect("edited");
        assert!(
            deep.contains("\n    new:\n      command: npx\n")
                && deep.contains("\n    a:\n        command: b\n")
        );
    }

    #[test]
    fn a_server_is_replaced_only_if_the_operator_says_so() {
        let text = "mcp_servers:\n  new:\n    command: old\n\n    args: [z]\n  # other\n  b: {command: c}\nworkers: 2\n";
        assert_eq!(added(text, ConfigFormat::Yaml, false), Err(ConfigEditError::Exists("new".to_owned())));
        let edited = added(text, ConfigFormat::Yaml, true).expect("edited");
        assert_eq!(edited, format!("mcp_servers:\n{BLOCK}  # other\n  b: {{command: c}}\nworkers: 2\n"));
    }

    #[test]
    fn toml_gets_tables() {
        let edited = added("workers = 3\n", ConfigFormat::Toml, false).expect("edited");
        assert!(edited.starts_with("workers = 3\n\n[mcp_servers.\"new\"]\ncommand = \"npx\"\n"), "{edited}");
        assert!(edited.ends_with("\n[mcp_servers.\"new\".env]\n\"A\" = \"${B}\"\n"), "{edited}");
    }

    #[test]
    fn what_cannot_be_edited_safely_is_not_edited() {
        for (text, format) in [
            ("mcp_servers: &x\n  a: {command: b}\nother: *x\n", ConfigFormat::Yaml),
            ("mcp_servers = { a = { command = \"b\" } }\n", ConfigFormat::Toml),
            ("mcp_servers: {new: {command: a}}\n", ConfigFormat::Yaml),
        ] {
            let error = added(text, format, true).expect_err(text);
            assert!(
                matches!(error, ConfigEditError::ByHand(_)) && error.advice().contains("npx"),
                "{text}: {error:?}"
            );
        }
        assert!(matches!(added("a: [", ConfigFormat::Yaml, false), Err(ConfigEditError::Unreadable(_))));
    }
}
