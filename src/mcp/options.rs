//! What the operator says about MCP servers. Owns the keys of `mcp_servers:` and their judgement.

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Longest name of a server, characters: names of tools begin with it.
const NAME_CHARS: usize = 32;
/// Headers that the protocol, or HTTP itself, owns.
const OWNED_HEADERS: [&str; 10] = [
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

/// One server of `mcp_servers:`: a program (`command`) or an address (`url`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerOptions {
    /// The program: a path, or a name for `PATH` to find.
    pub command: Option<String>,
    /// What it is given.
    pub args: Vec<String>,
    /// Its environment beside the sandbox's own few variables; the values are secrets.
    pub env: BTreeMap<String, Secret>,
    /// Where it starts; a private directory, which it may write to, when absent.
    pub workdir: Option<PathBuf>,
    /// Whether it may write to `workdir`.
    pub writable: bool,
    /// Directories and files elsewhere that it may read and start programs from.
    pub readable: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// Where it is reached over streamable HTTP; any address.
    pub url: Option<String>,
    /// Headers of every request; the values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// Longest run of one call.
    pub timeout_s: u64,
    /// Longest time until it has started and told its tools.
    pub start_timeout_s: u64,
    /// The tools that come in, by its own names or by ours; `*` is all of them.
    pub enabled_tools: Vec<String>,
    /// The tools that may be run again when a crash cut them off, named likewise.
    pub idempotent_tools: Vec<String>,
    /// Whether it is started again when it has ended.
    pub restart: bool,
    /// Whether all accounts may use its one process; has to be said where there are accounts.
    pub shared: Option<bool>,
}

impl Default for McpServerOptions {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            workdir: None,
            writable: false,
            readable: Vec::new(),
            network: false,
            url: None,
            headers: BTreeMap::new(),
            timeout_s: 30,
            start_timeout_s: 60,
            enabled_tools: vec!["*".to_owned()],
            idempotent_tools: Vec::new(),
            restart: true,
            shared: None,
        }
    }
}

/// What is wrong with a key of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFault {
    /// Below `mcp_servers.NAME`; empty: the name itself.
    pub key: &'static str,
    /// As written, secrets aside.
    pub value: String,
    /// What would be right.
    pub allowed: &'static str,
}

impl McpServerOptions {
    /// A server at this address, for a look.
    pub fn at(url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..Self::default() }
    }

    /// All that is wrong, numbers aside.
    pub fn faults(&self, name: &str) -> Vec<McpFault> {
        let mut faults = Vec::new();
        let mut wrong = |is_wrong: bool, key: &'static str, value: &str, allowed: &'static str| {
            if is_wrong {
                faults.push(McpFault { key, value: value.to_owned(), allowed });
            }
        };
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
        let is_named = (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(plain);
        wrong(!is_named, "", name, "is no name of a server: 1 to 32 of a-z, 0-9, '_' and '-'");
        let program = self.command.as_deref();
        match (program, self.url.as_deref()) {
            (Some(_), Some(_)) => {
                wrong(true, "url", "", "cannot stand beside command: a server has one of them");
            }
            (None, None) => wrong(true, "command", "", "is needed, or url: a server has one of them"),
            _ => {}
        }
        wrong(program.is_some_and(|c| c.trim().is_empty()), "command", "", "must name a program");
        let url = self.url.as_deref();
        wrong(
            url.is_some_and(|url| !is_address(url)),
            "url",
            shown(url),
            "must be http://… or https://…, without user and password",
        );
        let dir = self.workdir.as_deref();
        let dir_text = dir.map(|dir| dir.display().to_string()).unwrap_or_default();
        wrong(dir.is_some_and(|dir| !dir.is_absolute()), "workdir", &dir_text, "must be an absolute path");
        wrong(
            self.writable && dir.is_none(),
            "writable",
            "true",
            "is for a workdir; without one there is a private directory, which may be written to",
        );
        for path in self.readable.iter().filter(|path| !path.is_absolute()) {
            wrong(true, "readable", &path.display().to_string(), "must be absolute paths");
        }
        for variable in self.env.keys() {
            let bad = variable.is_empty() || variable.contains(['=', '\0']);
            wrong(bad, "env", variable, "is no name of a variable");
        }
        for (header, value) in &self.headers {
            wrong(!is_token(header), "headers", header, "is no name of a header");
            let owned = OWNED_HEADERS.iter().any(|owned| header.eq_ignore_ascii_case(owned));
            wrong(owned, "headers", header, "is a header that the protocol sets itself");
            let bad = value.reveal().bytes().any(|b| b.is_ascii_control() && b != b'\t');
            wrong(bad, "headers", header, "has a value with control characters");
        }
        faults
    }

    /// Whether this list of the operator's names the tool.
    pub(super) fn names(list: &[String], raw: &str, wrapped: &str) -> bool {
        list.iter().any(|entry| entry == "*" || entry == raw || entry == wrapped)
    }

    /// The texts that must not be repeated.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.env.values().chain(self.headers.values())
    }
}

/// Of an address, what may be shown: its query may hold a key.
fn shown(url: Option<&str>) -> &str {
    let url = url.unwrap_or_default();
    if url.contains('@') { "" } else { url.split(['?', '#']).next().unwrap_or_default() }
}

fn is_address(url: &str) -> bool {
    let uri: Option<hyper::Uri> = url.parse().ok();
    uri.is_some_and(|uri| {
        let host = uri.authority().is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'));
        matches!(uri.scheme_str(), Some("http" | "https")) && host
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
    fn a_program_and_an_address_are_servers() {
        assert_eq!(faults("files", "{command: npx, args: [-y, server]}"), Vec::<String>::new());
        assert_eq!(
            faults("a_b-9", "{url: 'http://10.0.0.1:3000/mcp', headers: {Authorization: Bearer x}}"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
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
            ("X", "{command: a}", ": is no name of a server"),
            ("", "{command: a}", ": is no name of a server"),
            ("a.b", "{command: a}", ": is no name of a server"),
        ] {
            let found = faults(name, yaml);
            assert!(found.iter().any(|fault| fault.contains(says)), "{name} {yaml}: {found:?}");
        }
        assert_eq!(faults(&"n".repeat(33), "{command: a}").len(), 1);
    }

    #[test]
    fn p9_what_is_refused_is_shown_without_its_secrets() {
        let options = McpServerOptions::at("ftp://h/mcp?key=sk-1");
        assert!(options.faults("x").iter().all(|fault| !fault.value.contains("sk-1")));
    }
}
