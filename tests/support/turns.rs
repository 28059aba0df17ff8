//! A model that follows its job's input: a JSON array of answers, each an array of calls `[name, arguments]`.
//! After the last answer it replies with all results as a JSON array. `@DIR@` in arguments stands for the
//! directory that an earlier `pwd` of the job printed.

use super::upstream::{Answer, Upstream};
use super::{Server, against, wait_until};
use serde_json::{Value, json};

/// The calls of one answer.
pub(crate) type Turn<'a> = &'a [(&'a str, Value)];

/// The call of a command.
pub(crate) fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

/// The call that reads a file.
pub(crate) fn read(path: &str) -> (&'static str, Value) {
    ("file_read", json!({"path": path}))
}

/// The call that writes a file.
pub(crate) fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("file_write", json!({"path": path, "content": content}))
}

/// The call of a program that takes seconds.
pub(crate) fn sleep(seconds: u32) -> (&'static str, Value) {
    ("execute_python", json!({"code": format!("import time\ntime.sleep({seconds})\nprint('slept')")}))
}

/// The output of a program that succeeded.
pub(crate) fn output(result: &Value) -> &str {
    assert_eq!(result["success"], true, "{result}");
    result["data"]["output"].as_str().unwrap_or_else(|| panic!("no output: {result}"))
}

/// The error of a call that failed.
pub(crate) fn error(result: &Value) -> &str {
    assert_eq!(result["success"], false, "{result}");
    result["error"].as_str().unwrap_or_else(|| panic!("no error: {result}"))
}

/// Starts the model.
pub(crate) fn start_model() -> Upstream {
    Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        let asked = messages.iter().rposition(|message| message["role"] == "user").expect("a question");
        let turns = turns_in(messages[asked]["content"].as_str().unwrap_or_default());
        let later = &messages[asked..];
        let done = later.iter().filter(|message| message["role"] == "assistant").count();
        let results = later.iter().filter(|message| message["role"] == "tool");
        let contents: Vec<&str> =
            results.map(|result| result["content"].as_str().unwrap_or_default()).collect();
        if let Some(turn) = turns.get(done) {
            let directory = contents.iter().find_map(|content| printed_directory(content));
            let calls: Vec<(&str, Value)> = turn
                .iter()
                .map(|(name, arguments)| (name.as_str(), filled(arguments, directory.as_deref())))
                .collect();
            return Answer::calls(&calls);
        }
        Answer::text(&format!("[{}]", contents.join(",")))
    })
}

/// The turns in a text; none if it has none.
fn turns_in(text: &str) -> Vec<Vec<(String, Value)>> {
    let from = text.find("[[").map_or("", |at| &text[at..]);
    let mut parsed = serde_json::Deserializer::from_str(from).into_iter();
    parsed.next().and_then(Result::ok).unwrap_or_default()
}

/// The directory that a result consists of.
fn printed_directory(content: &str) -> Option<String> {
    let result: Value = serde_json::from_str(content).ok()?;
    let output = result["data"]["output"].as_str()?.trim_end();
    output.starts_with('/').then(|| output.to_owned())
}

fn filled(arguments: &Value, directory: Option<&str>) -> Value {
    let text = arguments.to_string().replace("@DIR@", directory.unwrap_or("/nowhere"));
    serde_json::from_str(&text).expect("JSON")
}

/// A server with this model.
pub(crate) struct TurnServer {
    pub(crate) server: Server,
    pub(crate) upstream: Upstream,
}

impl TurnServer {
    /// Starts both, the server with these further lines of configuration.
    pub(crate) fn start(extra: &str) -> Self {
        let upstream = start_model();
        Self { server: Server::start_against(&upstream, extra), upstream }
    }

    /// `kill -9`, then another server on the same directory with the same model.
    pub(crate) fn crash_and_restart(self, extra: &str) -> Self {
        let config = against(&self.upstream, extra);
        Self { server: self.server.crash_and_restart(&config), upstream: self.upstream }
    }

    /// Submits a job that makes these calls, one answer after the other.
    pub(crate) fn submit(&self, turns: &[Turn<'_>], more: &Value) -> String {
        let mut body = json!({"input": serde_json::to_string(turns).expect("JSON")});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        self.server.submit(&body)
    }

    /// The id and the results of a job without a project.
    pub(crate) fn run(&self, turns: &[Turn<'_>]) -> (String, Vec<Value>) {
        let job = self.submit(turns, &json!({}));
        let results = self.results(&job);
        (job, results)
    }

    /// Waits until the model has asked for a call of this tool.
    pub(crate) fn wait_until_called(&self, job: &str, tool: &str) {
        let path = format!("/v1/jobs/{job}/events?follow=false");
        wait_until("the tool is called", || self.server.get(&path).body.contains(&format!("\"{tool}\"")));
    }

    /// The results of a job that succeeds.
    pub(crate) fn results(&self, job: &str) -> Vec<Value> {
        let ended = self.server.wait(job);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let text = ended["output_text"].as_str().expect("a text");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
