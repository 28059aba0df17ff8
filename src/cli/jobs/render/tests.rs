//! A scripted job on a terminal, with and without colour, and in pipes.

use super::*;
use crate::cli::terminal::testing::FakeTerminal;
use serde_json::json;

fn events(all: &[(&str, Value)]) -> Vec<ClientEvent> {
    let event = |(seq, (name, data)): (u64, &(&str, Value))| ClientEvent {
        seq,
        name: (*name).to_owned(),
        data: data.clone(),
    };
    (1..).zip(all).map(event).collect()
}

fn piece(step: &str, kind: &str, delta: &str) -> (&'static str, Value) {
    ("process_step", json!({"id": step, "type": kind, "delta": delta}))
}

/// A job that thinks, calls two tools and answers; what it says tries to command the terminal.
fn job() -> Vec<ClientEvent> {
    let code = json!({"code": "import math\nprint(math.pi)"}).to_string();
    let good = json!({"success": true, "data": {"output": "3.14\n\u{1b}[2J"}, "execution_time": 1.26});
    let bad = json!({"success": false, "data": null, "error": "no such file", "execution_time": 0.0});
    events(&[
        ("status", json!({"status": "running", "attempt": 1})),
        piece("step-0", "thinking", "Let me "),
        piece("step-0", "thinking", "see."),
        piece("step-1", "text", "I compute."),
        (
            "process_step",
            json!({"type": "tool_call", "id_ref": "a", "name": "execute_python", "arguments": code}),
        ),
        (
            "process_step",
            json!({"type": "tool_call", "id_ref": "b", "name": "read", "arguments": "{\"path\":\"x\"}"}),
        ),
        (
            "process_step",
            json!({"type": "tool_result", "id_ref": "a", "name": "execute_python", "content": good.to_string()}),
        ),
        (
            "process_step",
            json!({"type": "tool_result", "id_ref": "b", "name": "read", "content": bad.to_string()}),
        ),
        piece("step-6", "text", "It is \u{1b}[31m3.14"),
        piece("step-6", "text", ".\n"),
        (
            "done",
            json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, "finish_reason": "stop"}),
        ),
    ])
}

fn shown(screen: &FakeTerminal, events: &[ClientEvent]) -> Option<String> {
    let mut render = JobRenderer::new(&screen.terminal, "job_1", false);
    for event in events {
        render.show(event).expect("shown");
    }
    render.finish().expect("shown");
    render.summary().map(str::to_owned)
}

#[test]
fn p9_a_terminal_shows_all_steps_in_order_without_control_characters() {
    let screen = FakeTerminal::watched(false);
    assert_eq!(shown(&screen, &job()).as_deref(), Some("7 tokens (5 in, 2 out)"));
    let lines = [
        "Let me see.",
        "I compute.",
        "→ execute_python",
        "    code:",
        "      │ import math",
        "      │ print(math.pi)",
        "→ read  path: x",
        "← execute_python ✓ (1.3 s)",
        "    output:",
        "      │ 3.14",
        "      │ ␛[2J",
        "← read ✗  no such file",
        "It is ␛[31m3.14.",
        "",
    ];
    assert_eq!(screen.out(), lines.join("\n"));
}

#[test]
fn only_the_renderer_sets_terminal_colours() {
    let screen = FakeTerminal::watched(true);
    shown(&screen, &job());
    let out = screen.out();
    for part in [
        "\u{1b}[2mLet me \u{1b}[0m\u{1b}[2msee.\u{1b}[0m\n",
        "\u{1b}[36m→ execute_python\u{1b}[0m\n\u{1b}[2m    code:\u{1b}[0m\n",
        "\u{1b}[31m← read ✗  no such file\u{1b}[0m\n",
    ] {
        assert!(out.contains(part), "{part:?} in {out:?}");
    }
    let escapes = out.split('\u{1b}').skip(1);
    assert!(escapes.clone().count() > 10);
    for escape in escapes {
        assert!(["[0m", "[2m", "[31m", "[36m"].iter().any(|ours| escape.starts_with(ours)), "{escape:?}");
    }
}

#[test]
fn piped_output_has_only_the_answer_on_stdout() {
    let pipes = FakeTerminal::piped();
    shown(&pipes, &job());
    assert_eq!(pipes.out(), "I compute.\nIt is \u{1b}[31m3.14.\n", "data is what it is");
    assert!(pipes.err().starts_with("Let me see.\n→ execute_python\n"), "{}", pipes.err());
    assert!(!pipes.err().contains(['\u{1b}', '\r']), "{}", pipes.err());
}

#[test]
fn p2_a_discarded_step_is_not_repeated_in_piped_output() {
    let cut = events(&[
        piece("step-0", "text", "The ans"),
        ("status", json!({"status": "running", "attempt": 2})),
        ("step_discarded", json!({"id": "step-0"})),
        piece("step-1", "text", "The answer"),
        piece("step-1", "text", " is 42."),
        ("done", json!({"finish_reason": "length"})),
    ]);
    let (pipes, screen) = (FakeTerminal::piped(), FakeTerminal::watched(false));
    assert_eq!(shown(&pipes, &cut).as_deref(), Some("done, cut off at max_tokens"));
    assert_eq!((pipes.out().as_str(), pipes.err().as_str()), ("The answer is 42.\n", ""));
    shown(&screen, &cut);
    assert_eq!(screen.out(), "The ans\n(the step above was cut off and is repeated)\nThe answer is 42.\n");
}

#[test]
fn calls_that_wait_for_approval_are_shown_with_the_deciding_commands() {
    let advice = approval_advice(
        "bash (a) waits for approval: POST /v1/jobs/job_1/approve or /v1/jobs/job_1/deny",
        "job_1",
    );
    let hint = "decide with: nanoclaw approve job_1, or: nanoclaw deny job_1 --reason TEXT";
    assert_eq!(advice, format!("bash (a) waits for approval; {hint}"));
}

#[test]
fn a_notice_stands_on_a_line_of_its_own() {
    let screen = FakeTerminal::watched(false);
    let mut render = JobRenderer::new(&screen.terminal, "job_1", false);
    let started = events(&[piece("step-0", "text", "The ans")]);
    render.update(&Update::Event(&started[0])).expect("shown");
    render.update(&Update::Notice("connection lost")).expect("shown");
    assert_eq!(screen.out(), "The ans\nconnection lost\n");
}
