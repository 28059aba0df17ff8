//! What a server acknowledged, and when; and its checks against the server of another disk.

use super::disk::Cut;
use crate::support::{Event, Reply, Server, wait_until};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Accounts, a tool that needs approval, and webhooks to this machine.
pub(super) const CONFIG: &str = "auth_mode: multi\napproval: [\"text_process\"]\n\
     webhooks: {allow_private_addresses: [127.0.0.1]}\n";

pub(super) type Check = Box<dyn Fn(&Client) -> Result<(), String>>;

/// Something that holds after a power loss between two positions of the disk.
pub(super) struct Fact {
    /// The name of what later requests may change.
    pub(super) subject: String,
    /// The position when the answer arrived.
    pub(super) from: usize,
    /// The position when a request began that changes the subject.
    pub(super) until: usize,
    pub(super) check: Check,
}

impl Fact {
    fn holds_after(&self, cut: Cut) -> bool {
        self.from <= cut.end && cut.end <= self.until
    }
}

/// What was acknowledged.
#[derive(Default)]
pub(super) struct Facts(pub(super) Vec<Fact>);

impl Facts {
    /// What does not hold on this directory of a disk after this cut; `None`: the server does not start.
    pub(super) fn broken(&self, cut: Cut, dir: &Path, token: &str) -> Option<Vec<String>> {
        let server = catch_unwind(AssertUnwindSafe(|| Server::start_in(dir, CONFIG))).ok()?;
        let client = Client { server, token: token.to_owned() };
        let holds = |fact: &&Fact| fact.holds_after(cut);
        let check = |fact: &Fact| {
            let result = catch_unwind(AssertUnwindSafe(|| (fact.check)(&client)));
            let result = result.unwrap_or_else(|_| Err("no proper answer".to_owned()));
            result.err().map(|error| format!("{}: {error}", fact.subject))
        };
        Some(self.0.iter().filter(holds).filter_map(check).collect())
    }

    /// How many facts are checked after this cut.
    pub(super) fn count(&self, cut: Cut) -> usize {
        self.0.iter().filter(|fact| fact.holds_after(cut)).count()
    }
}

/// An account of a running server.
pub(super) struct Client {
    pub(super) server: Server,
    pub(super) token: String,
}

impl Client {
    pub(super) fn ask(&self, line: &str, body: &Value) -> Reply {
        self.ask_with(line, &[], &if body.is_null() { String::new() } else { body.to_string() })
    }

    pub(super) fn ask_with(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let token = format!("Bearer {}", self.token);
        let mut all = vec![("authorization", token.as_str())];
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            all.push(("content-type", "application/json"));
        }
        all.extend_from_slice(headers);
        self.server.request((method, path), &all, body)
    }

    pub(super) fn wait(&self, job: &str) -> Value {
        let mut value = Value::Null;
        wait_until("the end of the job", || {
            value = self.ask(&format!("GET /v1/jobs/{job}?wait=1"), &Value::Null).json();
            !matches!(value["status"].as_str(), Some("queued" | "running"))
        });
        value
    }

    pub(super) fn events(&self, job: &str) -> Vec<Event> {
        let reply = self.ask(&format!("GET /v1/jobs/{job}/events?format=delta&follow=false"), &Value::Null);
        let field = |frame: &str, name: &str| {
            frame.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap_or_default()
        };
        let event = |frame: &str| {
            Some(Event {
                seq: field(frame, "id: ").parse().ok()?,
                name: field(frame, "event: "),
                data: serde_json::from_str(&field(frame, "data: ")).ok()?,
            })
        };
        reply.body.split("\n\n").filter_map(event).collect()
    }
}
