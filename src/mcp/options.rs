//! The keys of `mcp_servers:` and their validation.

use crate::domain::secret::{Redactor, Secret};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Longest server name; tool names begin with it.
const NAME_CHARS: usize = 128;
/// Longest quote from a server in an error.
const QUOTE_CHARS: usize = 400;
/// Headers that HTTP or the protocol sets.
const RESERVED_HEADERS: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// How to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpTransport {
    /// The pipes of a program.
    Stdio,
    /// Streamable HTTP; HTTP with SSE if the server knows only that.
    #[serde(alias = "streamable-http")]
    Http,
    /// HTTP with SSE, as in the protocol of 2024; streamable HTTP if the server knows only that.
    Sse,
}

/// Whether the program of a server runs in the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpSandbox {
    /// It does.
    #[default]
    On,
    /// It runs with all rights of this process's user.
    Off,
}

/// A server of `mcp_servers:`: a program (`command`) or an address (`url`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerOptions {
    /// How to reach it; without it, `command` or `url` decide.
    #[serde(rename = "type")]
    pub transport: Option<McpTransport>,
    /// Whether it is left out.
    pub disabled: bool,
    /// The program: a path, or a name to find in `PATH`.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables, added to those of the sandbox; the values are secrets.
    pub env: BTreeMap<String, Secret>,
    /// Working directory, with the rights that `writable` gives; by default a private and writable one.
    pub workdir: Option<PathBuf>,
    /// Working directory, with the rights of a path that an argument names.
    pub cwd: Option<PathBuf>,
    /// Whether the program may write to `workdir`.
    pub writable: bool,
    /// Further files and directories that it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Whether it may use the network; by default only package runners (`npx`, `uvx` …) may.
    pub network: Option<bool>,
    /// Whether it runs in the sandbox.
    pub sandbox: McpSandbox,
    /// Address for streamable HTTP; may be private.
    pub url: Option<String>,
    /// Headers of every request; the values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// Time limit of a call.
    pub timeout_s: u64,
    /// Time limit for the start and the first listing of tools.
    pub start_timeout_s: u64,
    /// Tools to offer, by the server's names or ours; `*` means all.
    pub enabled_tools: Vec<String>,
    /// Tools of these that are not offered, named likewise.
    pub disabled_tools: Vec<String>,
    /// Tools that may run again after a crash, named likewise.
    pub idempotent_tools: Vec<String>,
    /// Whether it is restarted after it ended.
    pub restart: bool,
    /// Whether all accounts may share its process; required with accounts.
    pub shared: Option<bool>,
}

impl Default for McpServerOptions {
    fn default() -> Self {
        Self {
            transport: None,
            disabled: false,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            workdir: None,
            cwd: None,
            writable: false,
            readable: Vec::new(),
            network: None,
            sandbox: McpSandbox::On,
            url: None,
            headers: BTreeMap::new(),
            timeout_s: 30,
            start_timeout_s: 60,
            enabled_tools: vec!["*".to_owned()],
            disabled_tools: Vec::new(),
            idempotent_tools: Vec::new(),
            restart: true,
            shared: None,
        }
    }
}

/// A key with a value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMcpOption {
    /// Key below `mcp_servers.NAME`; empty for the name itself.
    pub key: &'static str,
    /// The value, without secrets.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

impl McpServerOptions {
    /// A server at this address, for a check.
    pub fn at(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::default() }
    }

    /// All bad values, except for numbers.
    pub fn faults(&self, name: &str) -> Vec<BadMcpOption> {
        let mut faults = Vec::new();
        let mut check = |is_bad: bool, key: &'static str, value: &str, allowed: &'static str| {
            if is_bad {
                faults.push(BadMcpOption { key, value: value.to_owned(), allowed });
            }
        };
        let is_short = (1..=NAME_CHARS).contains(&name.chars().count());
        let is_name = is_short && !name.trim().is_empty() && !name.chars().any(char::is_control);
        check(!is_name, "", name, "is no name of a server: 1 to 128 characters on one line");
        let (command, url) = (self.command.as_deref(), self.url.as_deref());
        let has_both = command.is_some() && url.is_some();
        check(has_both, "url", "", "cannot stand beside command: a server has one of them");
        let has_none = command.is_none() && url.is_none();
        check(has_none, "command", "", "is needed, or url: a server has one of them");
        let (is_stdio, is_http) = match self.transport {
            None => (false, false),
            Some(McpTransport::Stdio) => (true, false),
            Some(McpTransport::Http | McpTransport::Sse) => (false, true),
        };
        check(is_stdio && url.is_some(), "type", "stdio", "is for a command; leave it out for a url");
        check(is_http && command.is_some(), "type", "http", "is for a url; leave it out for a command");
        check(command.is_some_and(|c| c.trim().is_empty()), "command", "", "must name a program");
        let allowed = "must be http://… or https://…, without user and password";
        check(url.is_some_and(|url| !is_http_url(url)), "url", without_secrets(url), allowed);
        let dir = self.workdir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default();
        check(self.workdir.is_some() && self.cwd.is_some(), "cwd", "", "cannot stand beside workdir");
        let cwd = self.cwd.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default();
        let is_bad = self.cwd.as_ref().is_some_and(|dir| !dir.is_absolute());
        check(is_bad, "cwd", &cwd, "must be an absolute path");
        let is_relative = self.workdir.as_ref().is_some_and(|dir| !dir.is_absolute());
        check(is_relative, "workdir", &dir, "must be an absolute path");
        let allowed = "is for a workdir; without one there is a private directory, which may be written to";
        check(self.writable && self.workdir.is_none(), "writable", "true", allowed);
        for path in &self.readable {
            let text = path.display().to_string();
            check(!path.is_absolute(), "readable", &text, "must be absolute paths");
        }
        for variable in self.env.keys() {
            let is_bad = variable.is_empty() || variable.contains(['=', '\0']);
            check(is_bad, "env", variable, "is no name of a variable");
        }
        for (header, value) in &self.headers {
            check(!is_token(header), "headers", header, "is no name of a header");
            let is_reserved = RESERVED_HEADERS.iter().any(|name| header.eq_ignore_ascii_case(name));
            check(is_reserved, "headers", header, "is a header that the protocol sets itself");
            let is_bad = value.reveal().bytes().any(|b| b.is_ascii_control() && b != b'\t');
            check(is_bad, "headers", header, "has a value with control characters");
        }
        faults
    }

    /// Whether models may call the tool.
    pub(super) fn is_enabled(&self, raw_name: &str, name: &str) -> bool {
        Self::contains(&self.enabled_tools, raw_name, name)
            && !Self::contains(&self.disabled_tools, raw_name, name)
    }

    /// Whether a list of the operator contains the tool.
    pub(super) fn contains(list: &[String], raw_name: &str, name: &str) -> bool {
        list.iter().any(|entry| entry == "*" || entry == raw_name || entry == name)
    }

    /// Texts that must not be repeated.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.env.values().chain(self.headers.values())
    }

    /// A text of the server for an error or a log line: short, on one line, without our secrets (P9).
    pub(super) fn quote(&self, text: &str) -> String {
        let text = Redactor::new(self.secrets()).redact(text);
        let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        line.take(QUOTE_CHARS).collect::<String>().trim().to_owned()
    }
}

/// The part of an address that may be shown: the query may contain a key.
fn without_secrets(url: Option<&str>) -> &str {
    let url = url.unwrap_or_default();
    if url.contains('@') { "" } else { url.split(['?', '#']).next().unwrap_or_default() }
}

fn is_http_url(url: &str) -> bool {
    url.parse::<hyper::Uri>().is_ok_and(|uri| {
        let has_host = uri.authority().is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'));
        matches!(uri.scheme_str(), Some("http" | "https")) && has_host
    })
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, yaml: &str) -> Vec<String> {
        let options: McpServerOptions = serde_norway::from_str(yaml).expect("YAML");
        options.faults(name).into_iter().map(|fault| format!("{}: {}", fault.key, fault.allowed)).collect()
    }

    #[test]
    fn a_command_or_a_url_is_a_valid_server() {
        assert_eq!(faults("files", "{command: npx, args: [-y, server]}"), Vec::<String>::new());
        assert_eq!(
            faults("a_b-9", "{url: 'http://10.0.0.1:3000/mcp', headers: {Authorization: Bearer x}}"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn contradictions_and_bad_values_are_reported() {
        for (name, yaml, says) in [
            ("x", "{}", "command: is needed"),
            ("x", "{command: a, url: 'http://h/'}", "url: cannot stand"),
            ("x", "{command: ' '}", "must name a program"),
            ("x", "{url: 'ftp://h/'}", "url: must be http"),
            ("x", "{url: 'http://u:p@h/'}", "url: must be http"),
            ("x", "{url: '/mcp'}", "url: must be http"),
            ("x", "{command: a, workdir: rel}", "workdir: must be"),
            ("x", "{command: a, writable: true}", "writable: is for"),
            ("x", "{command: a, readable: [rel]}", "readable: must be"),
            ("x", "{command: a, env: {'A=B': c}}", "env: is no name"),
            ("x", "{url: 'http://h/', headers: {'A B': c}}", "headers: is no name"),
            ("x", "{url: 'http://h/', headers: {Mcp-Session-Id: c}}", "headers: is a header that"),
            ("x", "{url: 'http://h/', headers: {A: \"b\\nc\"}}", "headers: has a value"),
            ("x", "{command: a, type: http}", "type: is for a url"),
            ("x", "{url: 'http://h/', type: stdio}", "type: is for a command"),
            ("", "{command: a}", ": is no name of a server"),
            ("a\nb", "{command: a}", ": is no name of a server"),
        ] {
            let found = faults(name, yaml);
            assert!(found.iter().any(|fault| fault.contains(says)), "{name} {yaml}: {found:?}");
        }
        assert_eq!(faults(&"n".repeat(129), "{command: a}").len(), 1);
        for name in ["GitHub", "Brave Search", "awslabs.aws-documentation-mcp-server", "github.com/a/b"] {
            assert_eq!(faults(name, "{command: a}"), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn p9_a_refused_value_is_reported_without_secrets() {
        let options = McpServerOptions::at("ftp://h/mcp?key=sk-1");
        assert!(options.faults("x").iter().all(|fault| !fault.value.contains("sk-1")));
    }

    #[test]
    fn p9_a_quote_contains_no_secret() {
        let yaml = "{command: a, env: {K: sk-12345, S: ab}, headers: {Authorization: Bearer tok-777}}";
        let options: McpServerOptions = serde_norway::from_str(yaml).expect("YAML");
        assert_eq!(options.quote("bad sk-12345\nand tok-777 of ab"), "bad *** and *** of ab");
        assert_eq!(options.quote(&"x".repeat(9_000)).len(), QUOTE_CHARS);
    }
}
