//! Every way by which a tool is called, through the real binary: by a job, its agents, its background jobs,
//! its schedules, and the jobs that follow it. None has more rights than the request that began it.

use crate::support::upstream::{Answer, Upstream, tool_results};
use crate::support::{Reply, Server, against, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What makes the calls wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// `require_approval` of a request's MCP tool.
    Request,
    /// `approval:` of the configuration.
    Configuration,
}

/// A way by which calls come about: what the model is asked, and what follows.
type Way = (&'static str, fn(&Guarded));

/// The last message of the user.
fn question(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    let text = user.and_then(|message| message["content"].as_str()).unwrap_or_default();
    text.rsplit("] ").next().unwrap_or_default().to_owned()
}

fn is_answered(request: &Value) -> bool {
    let messages = request["messages"].as_array().expect("messages");
    messages.last().is_some_and(|last| last["role"] == "tool")
}

/// The protected calls. Their results have the text.
fn payments(protection: Protection, text: &str) -> Answer {
    let text = format!("paid: {text}");
    let echo = ("mcp_fake_echo", json!({"text": text}));
    if protection == Protection::Request {
        return Answer::calls(&[echo]);
    }
    let bash = json!({"command": format!("echo '{text}'")});
    Answer::calls(&[echo, ("pay", json!({"text": text})), ("bash", bash)])
}

/// A model that does what its question says.
fn model(protection: Protection) -> Upstream {
    let seen = Mutex::new(BTreeSet::new());
    Upstream::start(move |request, _| {
        let asked = question(request);
        let is_first = seen.lock().expect("no panic").insert(asked.clone());
        let results = tool_results(request);
        let agents = |task: Value| Answer::calls(&[("multi_agent", json!({"tasks": [task]}))]);
        let plan = |message: &str| {
            Answer::calls(&[("cron", json!({"action": "add", "message": message, "every_s": 1}))])
        };
        let spawn = |task: &str| Answer::calls(&[("spawn", json!({"task": task, "label": "it"}))]);
        match asked.as_str() {
            "pay, then agents" if results.len() == 1 => {
                agents(json!({"name": "a", "instruction": "pay below"}))
            }
            _ if is_answered(request) => Answer::text("done"),
            "pay after a failure" if is_first => Answer::error(400, "no such thing"),
            "pay again" if is_first => Answer::text("hello"),
            "named agents" => {
                let tools = ["mcp_fake_echo", "calculator"];
                agents(json!({"name": "a", "instruction": "pay as named agents", "tools": tools}))
            }
            text if text.starts_with("agents") => {
                agents(json!({"name": "a", "instruction": format!("pay as {text}")}))
            }
            "a child with agents" => spawn("agents of a child"),
            text if text.starts_with("a child") => spawn(&format!("pay as {text}")),
            "a plan with agents" => plan("agents of a plan"),
            "a plan" => plan("pay as a plan"),
            text if text.starts_with("pay") => payments(protection, text),
            _ => Answer::text("hello"),
        }
    })
}

/// The protected calls that have run, by their text.
fn paid(upstream: &Upstream) -> BTreeSet<String> {
    let results = upstream.requests().into_iter().flat_map(|request| tool_results(&request));
    let contents = results.filter_map(|result| result["content"].as_str().map(str::to_owned));
    let successes = contents.filter(|text| text.contains("\"success\":true"));
    let texts = successes.filter_map(|text| {
        let from = text.split_once("paid: ")?.1;
        Some(from.split(['"', '\\', '\'']).next().unwrap_or_default().to_owned())
    });
    texts.collect()
}

/// A server whose protected tools are those of the model.
struct Guarded {
    protection: Protection,
    upstream: Upstream,
    server: Server,
}

impl Guarded {
    fn start(protection: Protection) -> Self {
        let upstream = model(protection);
        let approval = match protection {
            Protection::Request => "",
            Protection::Configuration => "approval: [mcp_fake_echo, pay, bash]\n",
        };
        let fakes = format!("{}/tests/fake_mcp", env!("CARGO_MANIFEST_DIR"));
        let config = format!(
            "{approval}limits: {{model_schedule_s: 1}}\nmcp_servers:\n  fake: {{command: python3, args: [{fakes}/server.py, normal], readable: \
             [{fakes}]}}\ntools:\n  commands:\n    - {{name: pay, description: Pays., parameters: {{type: object, properties: {{text: \
             {{type: string}}}}}}, command: cat}}"
        );
        let server = Server::start_with(&against(&upstream, &config));
        wait_until("the tool is offered", || server.get("/v1/tools").body.contains("mcp_fake_echo"));
        Self { protection, upstream, server }
    }

    /// Asks the model in a new request with these fields. Returns the answer and the job's id.
    fn ask_with(&self, question: &str, fields: &Value) -> (Reply, String) {
        let mut body = json!({"model": "scripted", "input": question});
        let (path, named) = if self.protection == Protection::Request {
            let tool = json!({"type": "mcp", "server_label": "fake", "require_approval": "always"});
            body["tools"] = json!([tool]);
            ("/v1/responses", "conversation")
        } else {
            body["tools"] = json!(true);
            ("/v1/jobs", "conversation_id")
        };
        let mut fields = fields.clone();
        if let Some(conversation) = fields.as_object_mut().and_then(|map| map.remove("conversation")) {
            body[named] = conversation;
        }
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        let headers =
            [("content-type", "application/json"), ("nanoclaw-tools", "multi_agent,spawn,cron,calculator")];
        let reply = self.server.request(("POST", path), &headers, &body.to_string());
        let job = reply.header("x-job-id").unwrap_or_else(|| panic!("{}", reply.body)).to_owned();
        (reply, job)
    }

    fn ask(&self, question: &str) -> String {
        self.ask_with(question, &json!({})).1
    }

    fn jobs(&self) -> Vec<Value> {
        self.server.get("/v1/jobs?limit=100").json()["data"].as_array().expect("jobs").clone()
    }

    fn settle(&self, event: &str) {
        wait_until(event, || {
            let is_open = |job: &Value| job["status"] == "queued" || job["status"] == "running";
            !self.jobs().iter().any(is_open)
        });
    }

    /// Asks for a schedule, and waits until a job of it has ended.
    fn plan(&self, question: &str) {
        self.ask(question);
        self.settle("the schedule is made");
        let list = || self.server.get("/v1/schedules").json()["data"].as_array().expect("a list").clone();
        wait_until("the schedule fires", || list().iter().any(|made| made["runs"].as_u64() >= Some(1)));
        for made in list() {
            let path = format!("/v1/schedules/{}", made["id"].as_str().expect("an id"));
            assert_eq!(self.server.request(("DELETE", &path), &[], "").status, 200);
        }
        self.settle("the job of the schedule ends");
    }

    /// Retries a job that has failed before its first call.
    fn retry(&self) {
        let job = self.ask("pay after a failure");
        self.settle("the job fails");
        let failed = self.server.get(&format!("/v1/jobs/{job}")).json();
        assert_eq!(failed["status"], "failed", "{failed}");
        assert_eq!(self.server.post(&format!("/v1/jobs/{job}/retry"), &json!({})).status, 202);
    }

    /// Regenerates an answer that was a greeting.
    fn regenerate(&self) {
        let conversation = self.server.post("/v1/conversations", &json!({})).json()["id"].clone();
        self.ask_with("pay again", &json!({"conversation": conversation}));
        self.settle("the greeting ends");
        let path = format!("/api/conversations/{}", conversation.as_str().expect("an id"));
        let found = self.server.get(&format!("{path}/messages")).json();
        let messages = found["data"]["items"].as_array().expect("messages");
        let answer = messages.last().and_then(|message| message["id"].as_str()).expect("an answer");
        let before = self.jobs().len();
        // The job may wait, and so does its stream.
        let again = format!("{path}/regenerate/{answer}");
        let (reply, _events) = self.server.open(&again, &[], &json!({}));
        assert_eq!(reply.status, 200);
        self.settle("the other answer ends");
        assert_eq!(self.jobs().len(), before, "the answer is replaced");
    }

    /// Approves a call; the job that goes on makes others.
    fn approve(&self) {
        let (reply, job) = self.ask_with("pay, then agents", &json!({}));
        if self.protection == Protection::Configuration {
            wait_until("the job waits", || {
                self.server.get(&format!("/v1/jobs/{job}")).json()["status"] == "waiting"
            });
            let calls = self.server.get(&format!("/v1/jobs/{job}")).json()["approval"]["calls"].clone();
            let ids: Vec<&Value> =
                calls.as_array().expect("calls").iter().map(|call| &call["id_ref"]).take(1).collect();
            let path = format!("/v1/jobs/{job}");
            assert_eq!(self.server.post(&format!("{path}/approve"), &json!({"calls": ids})).status, 200);
            assert_eq!(self.server.post(&format!("{path}/deny"), &json!({})).status, 200);
            return;
        }
        let response = reply.json();
        let request = &response["output"].as_array().expect("items").last().expect("an item")["id"];
        let decided =
            json!([{"type": "mcp_approval_response", "approval_request_id": request, "approve": true}]);
        let tool = json!({"type": "mcp", "server_label": "fake", "require_approval": "always"});
        let body = json!({"model": "scripted", "tools": [tool], "input": decided,
            "previous_response_id": response["id"]});
        let headers = [("content-type", "application/json"), ("nanoclaw-tools", "multi_agent")];
        let reply = self.server.request(("POST", "/v1/responses"), &headers, &body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Calls through `/mcp`: a job, and a program.
    fn mcp(&self) {
        let call = |name: &str, arguments: Value| {
            let params = json!({"name": name, "arguments": arguments});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let headers =
                [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
            let reply = self.server.request(("POST", "/mcp"), &headers, &body.to_string());
            assert_eq!(reply.status, 200, "{}", reply.body);
            reply.json()["result"].clone()
        };
        if self.protection == Protection::Request {
            return;
        }
        let submitted = call("submit_job", json!({"input": "pay for a client", "tools": true}));
        assert_eq!(submitted["isError"], false, "{submitted}");
        let ran = call("run_shell", json!({"command": "echo 'paid'"}));
        assert_eq!(ran["isError"], true, "{ran}");
    }
}

const WAYS: [Way; 13] = [
    ("a call of the job", |on| drop(on.ask("pay"))),
    ("an agent", |on| drop(on.ask("agents"))),
    ("an agent that is given the tool by name", |on| drop(on.ask("named agents"))),
    ("a background job", |on| drop(on.ask("a child"))),
    ("an agent of a background job", |on| drop(on.ask("a child with agents"))),
    ("a schedule", |on| on.plan("a plan")),
    ("an agent of a schedule", |on| on.plan("a plan with agents")),
    ("a retry", Guarded::retry),
    ("another answer to the question", Guarded::regenerate),
    ("a job that goes on after an approval", Guarded::approve),
    ("a response in the background", |on| {
        let fields =
            if on.protection == Protection::Request { json!({"background": true}) } else { json!({}) };
        on.ask_with("agents in the background", &fields);
    }),
    ("a client of MCP", Guarded::mcp),
    ("a job that never waits", |on| {
        let denies = on.protection == Protection::Configuration;
        on.ask_with(
            "a child that never waits",
            &if denies { json!({"approval": "auto-deny"}) } else { json!({}) },
        );
    }),
];

#[test]
fn no_way_of_calling_a_tool_leaves_out_its_approval() {
    for protection in [Protection::Request, Protection::Configuration] {
        let guarded = Guarded::start(protection);
        let mut unasked = Vec::new();
        for (way, follow) in WAYS {
            let before = paid(&guarded.upstream);
            follow(&guarded);
            guarded.settle(way);
            // The call that is approved by its id.
            let is_unasked = |text: &&String| *text != "pay, then agents";
            let after = paid(&guarded.upstream);
            unasked.extend(after.difference(&before).filter(is_unasked).map(|text| format!("{way}: {text}")));
        }
        assert_eq!(unasked, Vec::<String>::new(), "{protection:?}");
        let approved = BTreeSet::from(["pay, then agents".to_owned()]);
        assert_eq!(paid(&guarded.upstream), approved, "{protection:?}: approved calls run");
    }
}

/// A model that makes as many calls as its question says, once, and answers with their results.
fn counting_model() -> Upstream {
    Upstream::start(|request, _| {
        let count = |n: usize| {
            let calls = (0..n).map(|at| ("calculator", json!({"expression": format!("{at}+1")})));
            Answer::calls(&calls.collect::<Vec<_>>())
        };
        if is_answered(request) {
            return Answer::text(
                &tool_results(request).iter().map(|result| result["content"].to_string()).collect::<String>(),
            );
        }
        match question(request).as_str() {
            "agents" => {
                Answer::calls(&[("multi_agent", json!({"tasks": [{"name": "a", "instruction": "two"}]}))])
            }
            "child" => Answer::calls(&[("spawn", json!({"task": "two", "label": "it"}))]),
            "two" => count(2),
            _ => Answer::text("hello"),
        }
    })
}

/// Asks with a limit of tool calls, and returns the text of the answer that has the results of `two`.
fn limited(server: &Server, question: &str, most: u64) -> String {
    let body = json!({"model": "scripted", "input": question, "max_tool_calls": most});
    let headers = [("content-type", "application/json"), ("nanoclaw-tools", "multi_agent,spawn,calculator")];
    let reply = server.request(("POST", "/v1/responses"), &headers, &body.to_string());
    let job = reply.header("x-job-id").unwrap_or_else(|| panic!("{}", reply.body)).to_owned();
    let children = server.get(&format!("/v1/jobs?parent={job}")).json();
    let told = children["data"][0]["id"].as_str().unwrap_or(&job).to_owned();
    server.wait(&told)["output_text"].as_str().expect("an answer").to_owned()
}

#[test]
fn agents_and_background_jobs_make_no_more_calls_than_their_job_has_left() {
    let server = Server::start_against(&counting_model(), "");
    // One call of the job itself, and one of two that remain.
    for question in ["agents", "child"] {
        let enough = limited(&server, question, 3);
        assert!(!enough.contains("max_tool_calls"), "{question}: {enough}");
        let scarce = limited(&server, question, 2);
        assert_eq!(scarce.matches("max_tool_calls").count(), 1, "{question}: {scarce}");
        assert!(scarce.contains("result"), "{question}: the first call is made: {scarce}");
    }
}
