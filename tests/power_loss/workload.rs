//! A client that makes every kind of request and notes what was acknowledged at which position of the disk.

use super::disk::RecordedDisk;
use super::facts::{CONFIG, Client, Fact, Facts};
use crate::support::directories::user_directory;
use crate::support::{Event, Server, wait_until};
use serde_json::{Value, json};

pub(super) const PASSWORD: &str = "correct horse";

/// The client during the recorded run.
pub(super) struct Workload<'a> {
    pub(super) client: Client,
    disk: &'a RecordedDisk,
    facts: Facts,
    pub(super) project: String,
    /// The position when the last acknowledgement arrived.
    answered_at: usize,
}

impl<'a> Workload<'a> {
    /// Starts a server on the disk and registers its first account.
    pub(super) fn start(disk: &'a RecordedDisk) -> Self {
        let server = Server::start_in(&disk.mounted.0, CONFIG);
        let mut client = Client { server, token: String::new() };
        let body = json!({"username": "ann", "password": PASSWORD});
        let reply = client.server.register(&body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        client.token = reply.json()["data"]["token"].as_str().expect("a token").into();
        let mut workload =
            Self { client, disk, facts: Facts::default(), project: String::new(), answered_at: 0 };
        workload.mark_answer();
        workload.acknowledged_get("session", "/api/auth/profile", &["/data/id", "/data/username"]);
        workload.project = workload.make_project("p");
        workload
    }

    /// All kinds of requests; `round` makes their names unique.
    pub(super) fn round(&mut self, round: usize) {
        self.files(round);
        self.stored_files(round);
        self.jobs(round);
        self.approvals(round);
        self.accounts(round);
        self.others(round);
        self.settings(round);
        self.deletions(round);
    }

    /// Ends the server; returns what it acknowledged and the session.
    pub(super) fn finish(self) -> (Facts, String) {
        (self.facts, self.client.token)
    }

    /// An answer arrived. What is acknowledged next is on the disk from here on, although reads follow it.
    pub(super) fn mark_answer(&mut self) {
        self.answered_at = self.disk.position();
    }

    pub(super) fn acknowledged(
        &mut self,
        subject: &str,
        check: impl Fn(&Client) -> Result<(), String> + 'static,
    ) {
        let (from, subject) = (self.answered_at, subject.to_owned());
        self.facts.0.push(Fact { subject, from, until: usize::MAX, check: Box::new(check) });
    }

    /// Ends what is known of a subject: a request that changes it begins.
    pub(super) fn changes(&mut self, subject: &str) {
        let now = self.disk.position();
        let facts = self.facts.0.iter_mut().filter(|fact| fact.subject == subject);
        facts.for_each(|fact| fact.until = fact.until.min(now));
    }

    pub(super) fn answered(&mut self, line: &str, body: &Value, status: u16) -> Value {
        let reply = self.client.ask(line, body);
        self.mark_answer();
        assert_eq!(reply.status, status, "{line}: {}", reply.body);
        reply.json()
    }

    /// The answer of this path has from now on the same values at these pointers.
    pub(super) fn acknowledged_get(&mut self, subject: &str, path: &str, pointers: &[&str]) {
        let line = format!("GET {path}");
        let before = self.client.ask(&line, &Value::Null);
        assert_eq!(before.status, 200, "{line}: {}", before.body);
        let before = before.json();
        let expected: Vec<(String, Value)> = pointers
            .iter()
            .map(|pointer| {
                let value = before.pointer(pointer);
                ((*pointer).to_owned(), value.unwrap_or_else(|| panic!("{pointer}: {before}")).clone())
            })
            .collect();
        self.acknowledged(subject, move |client| {
            let reply = client.ask(&line, &Value::Null);
            if reply.status != 200 {
                return Err(format!("{line}: {} {}", reply.status, reply.body));
            }
            let after = reply.json();
            let is_changed = |(pointer, value): &&(String, Value)| after.pointer(pointer) != Some(value);
            expected
                .iter()
                .find(is_changed)
                .map_or(Ok(()), |(pointer, value)| Err(format!("{line}: {pointer} is not {value}: {after}")))
        });
    }

    fn acknowledged_status(&mut self, subject: &str, line: String, status: u16) {
        self.acknowledged(subject, move |client| {
            let reply = client.ask(&line, &Value::Null);
            let is_right = reply.status == status;
            is_right.then_some(()).ok_or_else(|| format!("{line}: {} {}", reply.status, reply.body))
        });
    }

    fn file(&self, path: &str) -> String {
        format!("/api/projects/{}/files/{path}", self.project)
    }

    fn acknowledged_file(&mut self, path: &str) {
        let line = self.file(path);
        self.acknowledged_get(path, &line, &["/data/content", "/data/size"]);
    }

    fn make_project(&mut self, name: &str) -> String {
        let made = self.answered("POST /api/projects", &json!({"name": name}), 200);
        let id = made["data"]["id"].as_str().expect("an id").to_owned();
        self.acknowledged_get(&id, &format!("/api/projects/{id}"), &["/data/name"]);
        id
    }

    fn files(&mut self, round: usize) {
        for (path, size) in
            [(format!("put/{round}/a.txt"), 5_000), ("same.txt".to_owned(), 9_000 / (round + 1))]
        {
            self.changes(&path);
            let content = round.to_string().repeat(size);
            self.answered(&format!("PUT {}", self.file(&path)), &json!({"content": content}), 200);
            self.acknowledged_file(&path);
        }
        let (from, to) = (format!("put/{round}/a.txt"), format!("moved/{round}/b.txt"));
        self.changes(&from);
        self.answered(&format!("PATCH {}", self.file(&from)), &json!({"new_path": to}), 200);
        self.acknowledged_file(&to);
        self.acknowledged_status(&from, format!("GET {}", self.file(&from)), 404);
        if round % 2 == 1 {
            self.changes(&to);
            self.answered(&format!("DELETE {}", self.file(&to)), &Value::Null, 200);
            self.acknowledged_status(&to, format!("GET {}", self.file(&to)), 404);
        }
        let made = format!("made/{round}/deep");
        let line = format!("POST /api/projects/{}/directories", self.project);
        self.answered(&line, &json!({"path": made}), 200);
        let line = format!("GET /api/projects/{}/files?path={made}", self.project);
        self.acknowledged_status(&made, line, 200);
        self.upload(round);
    }

    fn upload(&mut self, round: usize) {
        let paths: Vec<String> = (0..3).map(|number| format!("up{round}-{number}.txt")).collect();
        let head = "Content-Disposition: form-data; name=\"files\"; filename";
        let part = |path: &String| format!("--cut\r\n{head}=\"{path}\"\r\n\r\n{}\r\n", "u".repeat(5_000));
        let body = paths.iter().map(part).collect::<String>() + "--cut--\r\n";
        let form = [("content-type", "multipart/form-data; boundary=cut")];
        let line = format!("POST /api/projects/{}/upload", self.project);
        let reply = self.client.ask_with(&line, &form, &body);
        self.mark_answer();
        assert_eq!(reply.status, 200, "{}", reply.body);
        for path in &paths {
            self.acknowledged_file(path);
        }
    }

    /// Files of `/v1/files`; the second of a round has the content of the first.
    fn stored_files(&mut self, round: usize) {
        let line = json!({"custom_id": "a", "url": "/v1/jobs", "body": {"input": "short"}}).to_string();
        let file = self.store_file("batch", &line);
        let order = json!({"input_file_id": file, "endpoint": "/v1/jobs", "completion_window": "24h"});
        let batch = self.answered("POST /v1/batches", &order, 200)["id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/batches/{batch}");
        let ended = self.client.ask(&format!("GET {path}?wait=30"), &Value::Null).json();
        self.mark_answer();
        let output = ended["output_file_id"].as_str().expect("results").to_owned();
        self.acknowledged_get(&batch, &path, &["/status", "/output_file_id", "/completed_at"]);
        let results = self.client.ask(&format!("GET /v1/files/{output}/content"), &Value::Null).body;
        self.acknowledged_content(&output, results);
        let content = format!("{round}").repeat(40_000);
        let files = [(); 2].map(|()| self.store_file("user_data", &content));
        let [first, _] = files;
        self.changes(&first);
        self.answered(&format!("DELETE /v1/files/{first}"), &Value::Null, 200);
        self.acknowledged_status(&first, format!("GET /v1/files/{first}"), 404);
    }

    fn acknowledged_content(&mut self, file: &str, expected: String) {
        let line = format!("GET /v1/files/{file}/content");
        self.acknowledged(file, move |client| {
            let reply = client.ask(&line, &Value::Null);
            let is_whole = reply.status == 200 && reply.body == expected;
            is_whole.then_some(()).ok_or_else(|| format!("{line}: {} {}", reply.status, reply.body.len()))
        });
    }

    fn store_file(&mut self, purpose: &str, content: &str) -> String {
        let head = "Content-Disposition: form-data; name";
        let purpose = format!("--cut\r\n{head}=\"purpose\"\r\n\r\n{purpose}\r\n");
        let body =
            format!("{purpose}--cut\r\n{head}=\"file\"; filename=\"a\"\r\n\r\n{content}\r\n--cut--\r\n");
        let form = [("content-type", "multipart/form-data; boundary=cut")];
        let reply = self.client.ask_with("POST /v1/files", &form, &body);
        self.mark_answer();
        assert_eq!(reply.status, 200, "{}", reply.body);
        let id = reply.json()["id"].as_str().expect("an id").to_owned();
        self.acknowledged_get(&id, &format!("/v1/files/{id}"), &["/bytes", "/filename", "/created_at"]);
        self.acknowledged_content(&id, content.to_owned());
        id
    }

    pub(super) fn submit(&mut self, body: &Value) -> String {
        let reply = self.answered("POST /v1/jobs", body, 202);
        let job = reply["id"].as_str().expect("an id").to_owned();
        self.acknowledged_get(&job, &format!("/v1/jobs/{job}"), &["/id", "/created_at"]);
        job
    }

    fn acknowledged_end(&mut self, job: &str) {
        self.acknowledged_get(job, &format!("/v1/jobs/{job}"), &["/status", "/output_text", "/usage"]);
        let seen = self.client.events(job);
        assert!(seen.len() > 1, "the job has events");
        let job_id = job.to_owned();
        self.acknowledged(job, move |client| {
            let now = client.events(&job_id);
            (now == seen).then_some(()).ok_or_else(|| format!("its events changed: {seen:?}, now {now:?}"))
        });
    }

    /// P2: events that a client saw never change.
    fn acknowledged_beginning(&mut self, job: &str) {
        let (seen, id) = (self.client.events(job), job.to_owned());
        self.mark_answer();
        self.acknowledged(job, move |client| {
            client.wait(&id);
            let now = client.events(&id);
            let numbers = (1..=now.len() as u64).collect::<Vec<_>>();
            let is_kept = now.starts_with(&seen) && now.iter().map(|event| event.seq).eq(numbers);
            is_kept.then_some(()).ok_or_else(|| format!("its events changed: {seen:?}, now {now:?}"))
        });
    }

    fn jobs(&mut self, round: usize) {
        let path = format!("tool/{round}.txt");
        let call = json!({"path": path, "content": "t".repeat(5_000)});
        let input = format!("tool: file_write {call}");
        let job = self.submit(&json!({"project_id": self.project, "input": input}));
        // The job ends. If its log says that the call succeeded, the file is there; a call
        // without result may have happened or not.
        let (url, id) = (self.file(&path), job.clone());
        self.acknowledged(&job, move |client| {
            let (ended, file) = (client.wait(&id), client.ask(&format!("GET {url}"), &Value::Null));
            let is_result = |event: &Event| event.data["type"] == "tool_result";
            let events = client.events(&id);
            let result = events.iter().find(|event| is_result(event)).map(|event| event.data.to_string());
            let is_unknown = result.as_ref().is_some_and(|result| result.contains("outcome unknown"));
            let is_there = file.status == 200 || is_unknown;
            let is_done = ended["status"] == "succeeded" && result.is_some() && is_there;
            is_done.then_some(()).ok_or_else(|| format!("{} {result:?} {}", ended["status"], file.body))
        });
        self.acknowledged_beginning(&job);
        let ended = self.client.wait(&job);
        self.mark_answer();
        assert_eq!(ended["status"], "succeeded", "{ended}");
        self.acknowledged_end(&job);
        self.acknowledged_file(&path);
        let key = [("idempotency-key", format!("key-{round}"))];
        let key: Vec<(&str, &str)> = key.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let first = self.client.ask_with("POST /v1/jobs", &key, "{\"input\": \"once\"}").json()["id"].clone();
        self.mark_answer();
        let round = round.to_string();
        self.acknowledged("idempotency key", move |client| {
            let key = [("idempotency-key", format!("key-{round}"))];
            let key: Vec<(&str, &str)> = key.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let again = client.ask_with("POST /v1/jobs", &key, "{\"input\": \"once\"}").json()["id"].clone();
            (again == first).then_some(()).ok_or_else(|| format!("{first} became {again}"))
        });
    }

    fn approvals(&mut self, round: usize) {
        let job =
            self.submit(&json!({"input": "tool: text_process {\"text\": \"a\", \"operation\": \"upper\"}"}));
        let (client, line) = (&self.client, format!("GET /v1/jobs/{job}"));
        wait_until("a waiting job", || client.ask(&line, &Value::Null).json()["status"] == "waiting");
        self.mark_answer();
        self.acknowledged_get(&job, &format!("/v1/jobs/{job}"), &["/status"]);
        self.changes(&job);
        let decision = ["approve", "deny", "cancel"][round % 3];
        self.answered(&format!("POST /v1/jobs/{job}/{decision}"), &json!({}), 200);
        let id = job.clone();
        self.acknowledged(&job, move |client| {
            let ended = client.wait(&id);
            let status = ended["status"].as_str().unwrap_or_default();
            let is_right = if decision == "cancel" { status == "cancelled" } else { status == "succeeded" };
            is_right.then_some(()).ok_or_else(|| format!("{decision} is lost: {ended}"))
        });
        self.client.wait(&job);
        self.mark_answer();
        self.acknowledged_end(&job);
    }

    fn accounts(&mut self, round: usize) {
        let name = format!("user{round}");
        let body = json!({"username": name, "password": PASSWORD});
        let user = self.answered("POST /api/users", &body, 200)["data"]["id"].clone();
        let path = format!("/api/users?username={name}");
        self.acknowledged_get(&name, &path, &["/data/items/0/id", "/data/items/0/is_active"]);
        self.changes(&name);
        let line =
            format!("PATCH /api/users/{}", user.as_str().map_or_else(|| user.to_string(), str::to_owned));
        self.answered(&line, &json!({"is_active": false}), 200);
        self.acknowledged_get(&name, &path, &["/data/items/0/id", "/data/items/0/is_active"]);
        let made = self.answered("POST /api/tokens", &json!({"name": "script"}), 200)["data"].clone();
        let key = made["key"].as_str().expect("a key").to_owned();
        self.acknowledged_key(&key, 200);
        if round.is_multiple_of(2) {
            self.changes(&key);
            let id = made["id"].as_str().map_or_else(|| made["id"].to_string(), str::to_owned);
            self.answered(&format!("DELETE /api/tokens/{id}"), &Value::Null, 200);
            self.acknowledged_key(&key, 401);
        }
    }

    fn acknowledged_key(&mut self, key: &str, status: u16) {
        let authorization = format!("Bearer {key}");
        self.acknowledged(key, move |client| {
            let reply = client.server.get_with("/v1/usage", &[("authorization", &authorization)]);
            (reply.status == status).then_some(()).ok_or_else(|| format!("{} {}", reply.status, reply.body))
        });
    }

    fn others(&mut self, round: usize) {
        let body = json!({"name": format!("s{round}"), "every_s": 3_600, "job": {"input": "x"}});
        let schedule =
            self.answered("POST /v1/schedules", &body, 201)["id"].as_str().expect("an id").to_owned();
        self.acknowledged_get(&schedule, &format!("/v1/schedules/{schedule}"), &["/id", "/name"]);
        let talk =
            self.answered("POST /api/conversations", &json!({"title": "t"}), 200)["data"]["id"].clone();
        let talk = talk.as_str().expect("an id").to_owned();
        let path = format!("/api/conversations/{talk}");
        let said = self.client.ask(&format!("POST {path}/messages"), &json!({"text": "hello"}));
        self.mark_answer();
        assert_eq!(said.status, 200, "{}", said.body);
        self.acknowledged_get(&talk, &format!("{path}/messages"), &["/data/items"]);
        let lines = "{\"custom_id\":\"a\",\"body\":{\"input\":\"1\"}}\n{\"custom_id\":\"b\",\"body\":{\"input\":\"2\"}}\n";
        let form = [("content-type", "application/jsonl")];
        let batch = self.client.ask_with("POST /v1/batches", &form, lines).json()["id"].clone();
        self.mark_answer();
        let batch = batch.as_str().expect("an id").to_owned();
        self.acknowledged_get(&batch, &format!("/v1/batches/{batch}"), &["/id", "/created_at"]);
        if round % 2 == 1 {
            for (subject, path) in [(&schedule, format!("/v1/schedules/{schedule}")), (&talk, path)] {
                self.changes(subject);
                let reply = self.client.ask(&format!("DELETE {path}"), &Value::Null);
                self.mark_answer();
                assert!(matches!(reply.status, 200 | 204), "{}", reply.body);
                self.acknowledged_status(subject, format!("GET {path}"), 404);
            }
        }
    }

    fn deletions(&mut self, round: usize) {
        let job = self.submit(&json!({"input": "short"}));
        self.client.wait(&job);
        self.changes(&job);
        let reply = self.client.ask(&format!("DELETE /v1/jobs/{job}"), &Value::Null);
        self.mark_answer();
        assert!(matches!(reply.status, 200 | 204), "{}", reply.body);
        self.acknowledged_status(&job, format!("GET /v1/jobs/{job}"), 404);
        self.changes("deleted project");
        let gone = self.make_project("again");
        let line = format!("PUT /api/projects/{gone}/files/old{round}.txt");
        self.answered(&line, &json!({"content": "old"}), 200);
        self.changes(&gone);
        self.answered(&format!("DELETE /api/projects/{gone}"), &Value::Null, 200);
        self.acknowledged_status(&gone, format!("GET /api/projects/{gone}"), 404);
        let directory = user_directory(&self.disk.mounted.0.join("data/workspaces"), 1).join("again");
        wait_until("the directory is removed", || !directory.exists());
        self.mark_answer();
        // A project of the same name never gets the files of the deleted one.
        self.acknowledged("deleted project", |client| {
            let made = client.ask("POST /api/projects", &json!({"name": "again"})).json();
            let id = made["data"]["id"].as_str().unwrap_or_default();
            let files = client.ask(&format!("GET /api/projects/{id}/files"), &Value::Null);
            let is_empty = files.json()["data"]["total_files"] == 0;
            is_empty.then_some(()).ok_or_else(|| format!("a new project has old files: {}", files.body))
        });
        // Jobs without files flush the store alone, which does not flush the directory's removal.
        for _ in 0..3 {
            let job = self.submit(&json!({"input": "short"}));
            self.client.wait(&job);
        }
    }
}
