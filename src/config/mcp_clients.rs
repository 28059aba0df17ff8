//! Translates the servers of `mcpServers`, as desktop clients and editors write them, to `mcp_servers`.
//!
//! A field that has no meaning here is named in a warning and left out: a block that works elsewhere must not
//! keep this server from starting.

use super::error::ConfigError;
use super::expand::{VariableForms, Variables, expand, join_key};
use figment::error::Actual;
use figment::value::{Dict, Num, Value};

const OURS: &str = "mcp_servers";
/// The key of the clients.
pub(super) const PASTED: &str = "mcpServers";
/// Numbers from this one on are milliseconds: no client waits a thousand seconds for a call.
const MILLISECONDS: f64 = 1_000.0;
/// Longest time limit, seconds.
const MAX_TIMEOUT_S: f64 = 3_600.0;

/// Keys of other clients with another name here.
const RENAMED: [(&str, &str); 20] = [
    ("serverUrl", "url"),
    ("serverURL", "url"),
    ("httpUrl", "url"),
    ("baseUrl", "url"),
    ("endpoint", "url"),
    ("uri", "url"),
    ("workingDirectory", "cwd"),
    ("working_directory", "cwd"),
    ("environment", "env"),
    ("transport", "type"),
    ("transportType", "type"),
    ("http_headers", "headers"),
    ("includeTools", "enabled_tools"),
    ("enabledTools", "enabled_tools"),
    ("allowedTools", "enabled_tools"),
    ("excludeTools", "disabled_tools"),
    ("disabledTools", "disabled_tools"),
    ("tool_timeout_sec", "timeout_s"),
    ("startup_timeout_sec", "start_timeout_s"),
    ("timeout", "timeout_s"),
];
/// Switches of other clients that mean "not disabled".
const ENABLED: [&str; 3] = ["enabled", "isActive", "active"];
/// Keys that mean the calls which need no approval.
const APPROVED: [&str; 4] = ["autoApprove", "alwaysAllow", "autoapprove", "trust"];
/// Keys of `mcp_servers:`.
const KNOWN: [&str; 20] = [
    "type",
    "disabled",
    "command",
    "args",
    "env",
    "workdir",
    "cwd",
    "writable",
    "readable",
    "network",
    "sandbox",
    "url",
    "headers",
    "timeout_s",
    "start_timeout_s",
    "enabled_tools",
    "disabled_tools",
    "idempotent_tools",
    "restart",
    "shared",
];

/// Moves the servers of `mcpServers` to `mcp_servers`, whose variables are expanded already. Returns
/// warnings.
pub(super) fn translate(
    root: &mut Dict,
    pasted: Option<Value>,
    variables: &Variables,
    origin: &str,
) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    let bad = |key: String, reason: &str| ConfigError::Type {
        key,
        reason: reason.to_owned(),
        origin: origin.to_owned(),
    };
    if let Some(Value::Dict(_, servers)) = root.get_mut(OURS) {
        for (name, server) in servers {
            let Value::Dict(_, fields) = server else { continue };
            let key = join_key(OURS, name);
            *fields = Translation::new(key, false, &mut warnings).server(std::mem::take(fields));
        }
    }
    let mut pasted = match pasted {
        None | Some(Value::Empty(..)) => return Ok(warnings),
        Some(Value::Dict(_, pasted)) => pasted,
        Some(_) => return Err(bad(PASTED.to_owned(), "must be a mapping of servers")),
    };
    let servers = root.entry(OURS.to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if matches!(servers, Value::Empty(..)) {
        *servers = Value::from(Dict::new());
    }
    let Value::Dict(_, servers) = servers else { return Ok(warnings) };
    for (name, server) in &mut pasted {
        let key = join_key(PASTED, name);
        expand(&key, server, VariableForms::McpClients, variables, origin)?;
        let Value::Dict(_, fields) = server else {
            return Err(bad(key, "must be a mapping of keys"));
        };
        let fields = Translation::new(key.clone(), true, &mut warnings).server(std::mem::take(fields));
        if servers.insert(name.clone(), Value::from(fields)).is_some() {
            return Err(bad(key, "is in mcp_servers, too; keep one of them"));
        }
    }
    Ok(warnings)
}

/// The translation of one server.
struct Translation<'a> {
    key: String,
    /// Whether it is in `mcpServers`, where every unknown field belongs to another client.
    is_pasted: bool,
    unused: Vec<String>,
    warnings: &'a mut Vec<String>,
    fields: Dict,
}

impl<'a> Translation<'a> {
    fn new(key: String, is_pasted: bool, warnings: &'a mut Vec<String>) -> Self {
        Self { key, is_pasted, unused: Vec::new(), warnings, fields: Dict::new() }
    }

    fn server(mut self, fields: Dict) -> Dict {
        for (name, value) in fields {
            self.field(name, value);
        }
        self.split_command();
        self.choose_transport();
        if !self.unused.is_empty() {
            let unused = self.unused.join(", ");
            self.warnings.push(format!("{}: not used here: {unused}", self.key));
        }
        self.fields
    }

    fn field(&mut self, name: String, value: Value) {
        let is_blank = matches!(&value, Value::Empty(..)) || value.as_str() == Some("");
        let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let key = renamed.unwrap_or(&name);
        match (key, value) {
            _ if is_blank && (self.is_pasted || renamed.is_some()) => {}
            ("type", Value::String(_, text)) => self.transport(&text),
            ("env" | "headers", value) => self.set(key, texts(value)),
            ("args" | "enabled_tools" | "disabled_tools", value) => self.set(key, list(value)),
            ("command", Value::Array(_, words)) => {
                let mut words = words.into_iter();
                self.fields.extend(words.next().map(|word| ("command".to_owned(), word)));
                self.set("args", Value::from(words.collect::<Vec<_>>()));
            }
            ("timeout_s" | "start_timeout_s", value) if renamed.is_some() => self.timeout(&name, key, &value),
            ("cwd", value) => match value.as_str() {
                Some(dir) if !dir.starts_with('/') => {
                    self.unused.push(format!("{name} (it is no absolute path)"));
                }
                _ => self.set("cwd", value),
            },
            ("sandbox", Value::Bool(_, flag)) => {
                self.set("sandbox", Value::from(if flag { "on" } else { "off" }));
            }
            ("sandbox", Value::Dict(..)) if self.is_pasted => self.unused.push(name),
            (_, value) if ENABLED.contains(&name.as_str()) => {
                if value.to_bool_lossy() == Some(false) {
                    self.set("disabled", Value::from(true));
                }
            }
            (_, value) if APPROVED.contains(&name.as_str()) => {
                let is_empty = value.as_array().is_some_and(<[Value]>::is_empty);
                if !is_empty && value.to_bool_lossy() != Some(false) {
                    self.unused.push(format!("{name} (the key approval decides which calls wait)"));
                }
            }
            (key, value) if KNOWN.contains(&key) => self.set(key, value),
            _ if self.is_pasted => self.unused.push(name),
            // Not of a client: the error for the key suggests another one.
            (_, value) => self.set(&name, value),
        }
    }

    /// The first value of a key stays.
    fn set(&mut self, key: &str, value: Value) {
        self.fields.entry(key.to_owned()).or_insert(value);
    }

    fn transport(&mut self, text: &str) {
        let plain: String = text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        let transport = match plain.as_str() {
            "stdio" | "local" | "command" => "stdio",
            "http" | "streamablehttp" | "streamable" | "remote" => "http",
            "sse" => "sse",
            _ if self.is_pasted => {
                self.unused.push(format!("type '{text}'; the server is not started"));
                self.set("disabled", Value::from(true));
                return;
            }
            // The error lists the types.
            _ => text,
        };
        self.set("type", Value::from(transport));
    }

    fn timeout(&mut self, name: &str, key: &str, value: &Value) {
        let number = value.to_num_lossy().and_then(|number| text_of(number).parse::<f64>().ok());
        match number.filter(|number| *number > 0.0) {
            Some(number) => {
                let seconds = if number >= MILLISECONDS { number / 1_000.0 } else { number };
                // A text, because the reader of texts takes it as a whole number.
                self.set(key, Value::from(format!("{}", seconds.ceil().min(MAX_TIMEOUT_S))));
            }
            None => self.unused.push(name.to_owned()),
        }
    }

    /// `cmd /c npx …` of Windows, and a whole line as the command.
    fn split_command(&mut self) {
        if !self.is_pasted {
            return;
        }
        let Some(line) = self.fields.get("command").and_then(Value::as_str).map(str::to_owned) else {
            return;
        };
        let arguments = self.fields.get("args").and_then(Value::as_array).unwrap_or_default().to_vec();
        let is_windows_shell = matches!(line.to_lowercase().as_str(), "cmd" | "cmd.exe");
        let mut words: Vec<Value> = if is_windows_shell {
            let is_switch = |word: &Value| word.as_str().is_some_and(|word| word.eq_ignore_ascii_case("/c"));
            arguments.into_iter().skip_while(is_switch).collect()
        } else if arguments.is_empty() && line.contains(' ') && !std::path::Path::new(&line).exists() {
            line.split_whitespace().map(Value::from).collect()
        } else {
            return;
        };
        if !words.is_empty() {
            self.fields.insert("command".to_owned(), words.remove(0));
            self.fields.insert("args".to_owned(), Value::from(words));
        }
    }

    /// Some clients store fields of both kinds of servers; the type decides, or else the command.
    fn choose_transport(&mut self) {
        let has_both = self.fields.contains_key("command") && self.fields.contains_key("url");
        if !self.is_pasted || !has_both {
            return;
        }
        let is_remote = self.fields.get("type").is_some_and(|kind| kind.as_str() != Some("stdio"));
        let left_out = if is_remote { "command" } else { "url" };
        self.fields.remove(left_out);
        self.unused.push(left_out.to_owned());
    }
}

/// Scalars as texts: clients take `"PORT": 3000`. A list of `NAME=value` is a mapping.
fn texts(value: Value) -> Value {
    let text = |value: &Value| match value {
        Value::Num(..) | Value::Bool(..) => scalar(value),
        other => other.clone(),
    };
    match value {
        Value::Dict(_, dict) => {
            let is_set = |(_, value): &(String, Value)| !matches!(value, Value::Empty(..));
            let pairs = dict.into_iter().filter(is_set).map(|(name, value)| (name, text(&value)));
            Value::from(pairs.collect::<Dict>())
        }
        Value::Array(_, list) => {
            let pairs = list.iter().filter_map(|entry| entry.as_str()?.split_once('='));
            Value::from(pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Dict>())
        }
        other => other,
    }
}

/// A list of texts; a single text is a list of one.
fn list(value: Value) -> Value {
    match value {
        Value::Array(_, list) => Value::from(list.iter().map(scalar).collect::<Vec<_>>()),
        text @ Value::String(..) => Value::from(vec![text]),
        other => other,
    }
}

fn scalar(value: &Value) -> Value {
    match value {
        Value::Num(_, number) => Value::from(text_of(*number)),
        Value::Bool(_, flag) => Value::from(flag.to_string()),
        other => other.clone(),
    }
}

fn text_of(number: Num) -> String {
    match number.to_actual() {
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}
