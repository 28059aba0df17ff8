//! Requests that change what exists, and those whose effect comes later: new names, quotas, passwords,
//! results of batches, deliveries of webhooks, backups.

use super::facts::Client;
use super::workload::{PASSWORD, Workload};
use crate::support::receiver::{Receiver, ReceiverReply};
use crate::support::{command, wait_until};
use nanoclaw::store::check;
use serde_json::{Value, json};

impl Workload<'_> {
    pub(super) fn settings(&mut self, round: usize) {
        self.names(round);
        self.user(round);
        self.batch_results();
        self.delivery();
        self.cancelled();
        self.backup(round);
    }

    fn names(&mut self, round: usize) {
        let name = json!({"name": format!("renamed {round}"), "description": "new"});
        let (id, project) = (self.project.clone(), format!("/api/projects/{}", self.project));
        self.changes(&id);
        self.answered(&format!("PATCH {project}"), &name, 200);
        self.acknowledged_get(&id, &project, &["/data/name", "/data/description"]);
        let talk =
            self.answered("POST /api/conversations", &json!({"title": "a"}), 200)["data"]["id"].clone();
        let talk = format!("/api/conversations/{}", talk.as_str().expect("an id"));
        for title in ["b", "c"] {
            self.changes(&talk);
            self.answered(&format!("PATCH {talk}"), &json!({"title": title}), 200);
            self.acknowledged_get(&talk, &talk, &["/data/title"]);
        }
    }

    /// The new quota of an account, and its new password.
    fn user(&mut self, round: usize) {
        let name = format!("quota{round}");
        let body = json!({"username": name, "password": PASSWORD});
        let user = self.answered("POST /api/users", &body, 200)["data"]["id"].clone();
        let user = user.as_str().map_or_else(|| user.to_string(), str::to_owned);
        let change = json!({"quota": {"unfinished_jobs": 5 + round}, "password": "another horse"});
        self.answered(&format!("PATCH /api/users/{user}"), &change, 200);
        self.acknowledged_get(&name, &format!("/api/users?username={name}"), &["/data/items/0/quota"]);
        self.acknowledged(&name.clone(), move |client| {
            let login = |password: &str| {
                client.ask("POST /api/auth/login", &json!({"username": name, "password": password})).status
            };
            let answers = (login("another horse"), login(PASSWORD));
            (answers == (200, 401)).then_some(()).ok_or_else(|| format!("new and old password: {answers:?}"))
        });
    }

    fn batch_results(&mut self) {
        let lines = "{\"custom_id\":\"a\",\"body\":{\"input\":\"1\"}}\n{\"custom_id\":\"b\",\"body\":{\"input\":\"2\"}}\n";
        let form = [("content-type", "application/jsonl")];
        let batch = self.client.ask_with("POST /v1/batches", &form, lines).json()["id"].clone();
        let batch = format!("/v1/batches/{}", batch.as_str().expect("an id"));
        let status =
            |client: &Client| client.ask(&format!("GET {batch}"), &Value::Null).json()["status"].clone();
        wait_until("the end of the batch", || status(&self.client) == "completed");
        let line = format!("GET {batch}/results");
        let results = self.client.ask(&line, &Value::Null).body;
        assert_eq!(results.lines().count(), 2, "{results}");
        self.mark_answer();
        self.acknowledged(&batch, move |client| {
            let now = client.ask(&line, &Value::Null).body;
            (now == results).then_some(()).ok_or_else(|| format!("{results} became {now}"))
        });
    }

    /// A delivery that was shown as settled is not sent again.
    fn delivery(&mut self) {
        let receiver = Receiver::start(|_| ReceiverReply::Status(204));
        let url = format!("http://127.0.0.1:{}/", receiver.port);
        self.submit(&json!({"input": "short", "webhook_url": url}));
        let id = receiver.arrivals(1)[0].header("webhook-id").to_owned();
        let path = format!("/v1/webhooks/{id}");
        let delivery = |client: &Client| client.ask(&format!("GET {path}"), &Value::Null).json();
        wait_until("the delivery is settled", || delivery(&self.client)["state"] == "delivered");
        self.mark_answer();
        self.acknowledged_get(&id, &path, &["/state", "/tries", "/last_status"]);
    }

    fn cancelled(&mut self) {
        let job = self.submit(&json!({"input": "later", "run_at": "2200-01-01T00:00:00Z"}));
        let path = format!("/v1/jobs/{job}");
        self.changes(&job);
        self.answered(&format!("POST {path}/cancel"), &json!({}), 200);
        self.acknowledged_get(&job, &path, &["/status"]);
    }

    /// A backup whose command has ended is a whole store.
    fn backup(&mut self, round: usize) {
        let (name, server) = (format!("backup{round}.redb"), &self.client.server);
        let mut made = command(&["backup", "--server", &server.url, "--token", &self.client.token]);
        let made = made.arg(server.dir.join(&name)).output().expect("runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        self.mark_answer();
        self.acknowledged(&name.clone(), move |client| match check(&client.server.dir.join(&name)) {
            Ok(Some(report)) if report.damaged == 0 && report.rows > 0 => Ok(()),
            report => Err(format!("{report:?}")),
        });
    }
}
