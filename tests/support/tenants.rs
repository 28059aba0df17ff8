//! A server with accounts.

use super::{Reply, Server};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const PASSWORD: &str = "correct horse battery";

/// No answer of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with an administrator `root` and some users.
pub(crate) struct Tenants {
    pub(crate) server: Server,
}

impl Tenants {
    pub(crate) fn start(config: &str, names: &[&str]) -> Self {
        Self::over(Server::start_with(&format!("auth_mode: multi\n{config}")), names)
    }

    /// Makes the accounts of a new server.
    pub(crate) fn over(server: Server, names: &[&str]) -> Self {
        let account = |name: &str| json!({"username": name, "password": PASSWORD});
        let reply = server.register(&account("root"));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let tenants = Self { server };
        let root = tenants.token("root");
        for name in names {
            let reply = tenants.ask(&root, ("POST", "/api/users"), &account(name));
            assert_eq!(reply.status, 200, "{}", reply.body);
        }
        tenants
    }

    pub(crate) fn login(&self, name: &str) -> Reply {
        self.server.post("/api/auth/login", &json!({"username": name, "password": PASSWORD}))
    }

    /// Opens a session; returns its token.
    pub(crate) fn token(&self, name: &str) -> String {
        let reply = self.login(name);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["data"]["token"].as_str().expect("a token").to_owned()
    }

    /// A request of the owner of a token; `null` sends no body.
    pub(crate) fn ask(&self, token: &str, (method, path): (&str, &str), body: &Value) -> Reply {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.server.request((method, path), &headers, &text)
    }

    pub(crate) fn submit(&self, token: &str, body: &Value) -> String {
        let reply = self.ask(token, ("POST", "/v1/jobs"), body);
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.json()["id"].as_str().expect("an id").to_owned()
    }

    /// A connection that has sent nothing yet.
    pub(crate) fn connect(&self) -> TcpStream {
        let address = self.server.url.strip_prefix("http://").expect("an address");
        let connection = TcpStream::connect(address).expect("connects");
        connection.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        connection
    }

    /// A connection that has sent these bytes.
    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut connection = self.connect();
        // The server may have closed it already.
        drop(connection.write_all(bytes.as_ref()));
        connection
    }
}
