//! Functions that the client runs: they are offered beside the tools of the server, and a call of one ends
//! the job.

use super::fixture::{Fixture, answer_with_calls, answers, call};
use crate::domain::event::{Event, FinishReason, Record};
use crate::domain::job::{JobSpec, JobStatus};
use crate::domain::model_settings::{CallMode, ClientFunction};
use std::sync::{Arc, Mutex};

fn change_spec(fixture: &mut Fixture, change: impl FnOnce(&mut JobSpec)) {
    Arc::get_mut(&mut fixture.store).expect("no other owner yet").change_spec(change);
}

fn function(name: &str) -> ClientFunction {
    let parameters = serde_json::json!({"type": "object"});
    let (description, input_examples) = (String::new(), Vec::new());
    ClientFunction { name: name.into(), description, parameters, strict: None, input_examples }
}

#[test]
fn a_client_function_ends_the_job_after_the_tools_of_the_server_have_run() {
    let mut fixture =
        Fixture::new(|_, _, sink| answer_with_calls(vec![call("c1", "theirs"), call("c2", "pure")], sink));
    change_spec(&mut fixture, |spec| spec.functions = vec![function("theirs")]);
    fixture.finish();
    let records = fixture.store.records();
    let is_result = |record: &&Record| matches!(record, Record::Event(Event::ToolResult { .. }));
    assert_eq!(records.iter().filter(is_result).count(), 1);
    let ends = fixture.store.terminal_events();
    assert!(matches!(&ends[..], [Event::Done { finish_reason: FinishReason::ToolCalls, .. }]), "{ends:?}");
    assert_eq!(fixture.status(), JobStatus::Succeeded);
}

#[test]
fn functions_replace_tools_of_their_name_and_a_call_is_forced_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let mut fixture = Fixture::new(move |request, _, sink| {
        let names: Vec<String> = request.tools.iter().map(|tool| tool.name.to_string()).collect();
        requests.lock().expect("no panic").push((names, request.settings.call_mode.clone()));
        let calls = if answers(request) == 0 { vec![call("c1", "pure")] } else { Vec::new() };
        answer_with_calls(calls, sink)
    });
    change_spec(&mut fixture, |spec| {
        spec.functions = vec![function("theirs"), function("effect")];
        spec.settings.call_mode = Some(CallMode::Required);
    });
    fixture.finish();
    let names: Vec<String> = ["pure", "theirs", "effect"].map(str::to_owned).into();
    let expected = [(names.clone(), Some(CallMode::Required)), (names, None)];
    assert_eq!(*seen.lock().expect("no panic"), expected);
}
