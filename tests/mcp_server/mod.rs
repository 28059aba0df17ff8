//! This server as an MCP server, through the real binary: `/mcp` and `nanoclaw mcp serve`.

mod jobs;
mod messages;
mod programs;
mod resources;
mod stdio;
mod walls;

use crate::support::{Reply, Server};
use serde_json::{Value, json};
use std::cell::Cell;

/// The newest version of the protocol that the server has.
const VERSION: &str = "2025-11-25";

/// A client with a session.
struct McpClient<'s> {
    server: &'s Server,
    /// `Bearer …`; `None` with `auth_mode: single`.
    credential: Option<String>,
    session: Option<String>,
    next_id: Cell<u64>,
}

impl<'s> McpClient<'s> {
    /// Without a session.
    fn unopened(server: &'s Server, token: Option<&str>) -> Self {
        let credential = token.map(|token| format!("Bearer {token}"));
        Self { server, credential, session: None, next_id: Cell::new(1) }
    }

    fn open(server: &'s Server) -> Self {
        Self::open_with(server, None)
    }

    fn open_with(server: &'s Server, token: Option<&str>) -> Self {
        let mut client = Self::unopened(server, token);
        let reply = client.send(&initialize(VERSION));
        assert_eq!(reply.status, 200, "{}", reply.body);
        client.session = reply.header("mcp-session-id").map(str::to_owned);
        assert!(client.session.is_some(), "{:?}", reply.headers);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let reply = client.send(&initialized);
        assert_eq!((reply.status, reply.body.as_str()), (202, ""));
        client
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", VERSION),
        ];
        headers.extend(self.credential.as_deref().map(|credential| ("authorization", credential)));
        headers.extend(self.session.as_deref().map(|session| ("mcp-session-id", session)));
        headers
    }

    /// Sends a message as it is.
    fn send(&self, message: &Value) -> Reply {
        self.server.request(("POST", "/mcp"), &self.headers(), &message.to_string())
    }

    /// The reply to a request.
    fn ask(&self, method: &str, params: &Value) -> Value {
        let id = self.next_id.replace(self.next_id.get() + 1);
        let reply = self.send(&request(id, method, params));
        assert_eq!(reply.status, 200, "{method}: {}", reply.body);
        let reply = reply.json();
        assert_eq!((&reply["jsonrpc"], &reply["id"]), (&json!("2.0"), &json!(id)), "{reply}");
        reply
    }

    /// The result of a request.
    fn result(&self, method: &str, params: &Value) -> Value {
        let reply = self.ask(method, params);
        assert!(reply["error"].is_null(), "{method}: {reply}");
        reply["result"].clone()
    }

    /// The error of a request.
    fn error(&self, method: &str, params: &Value) -> Value {
        let reply = self.ask(method, params);
        assert!(reply["result"].is_null(), "{method}: {reply}");
        reply["error"].clone()
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.result("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The structured content of a call that succeeds.
    fn done(&self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let told: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(told, result["structuredContent"], "the text is the structured content");
        told
    }

    /// The text of a call that fails.
    fn failed(&self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The names of the tools.
    fn tools(&self) -> Vec<String> {
        let list = self.result("tools/list", &json!({}));
        let tools = list["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    request(0, "initialize", &params)
}

/// The shell command that creates a file and then sleeps for long.
fn sleeping(file: &str) -> Value {
    json!({"command": format!("touch {file}; sleep 600"), "timeout": 600})
}
