//! What the demo model says, chunk by chunk.

use super::*;
use crate::domain::id::UserId;
use crate::domain::model_settings::ModelSettings;
use crate::domain::tool::ToolSpec;
use crate::ports::{CancelReason, CancelToken, Clock, ModelCaller};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time that passes only in pauses; raises the flag at a set moment.
#[derive(Default)]
struct Fake {
    now: AtomicU64,
    stop_at: Option<u64>,
}

impl Clock for Fake {
    fn now_ms(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }
    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }
    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        let now = self.now.fetch_add(u64::try_from(timeout.as_millis()).expect("short"), Ordering::SeqCst);
        if self.stop_at.is_some_and(|at| now >= at) {
            stop.cancel(CancelReason::Cancelled);
        }
    }
}

struct Heard {
    text: String,
    thinking: String,
    usage: Usage,
    chunks: usize,
    result: Result<Completion, ModelError>,
}

fn spec(name: &'static str) -> ToolDefinition {
    ToolSpec { name: name.into(), description: "".into(), parameters: json!({}) }.into()
}

fn ask_on(clock: Fake, messages: Vec<Message>, thinking: bool) -> Heard {
    let tools = vec![spec("calculator"), spec("execute_python")];
    let request = ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: ID.into(),
        messages,
        tools,
        temperature: None,
        max_tokens: None,
        thinking,
        may_call: true,
        settings: ModelSettings::default(),
    };
    let cancel = CancelToken::new(Arc::new(clock)).with_deadline(10_000);
    let (mut text, mut thought, mut chunks) = (String::new(), String::new(), 0);
    let mut usage = Usage::default();
    let mut sink = |chunk: Chunk<'_>| {
        chunks += usize::from(!matches!(chunk, Chunk::Spent(_) | Chunk::CaughtUp));
        match chunk {
            Chunk::Text(piece) => text.push_str(piece),
            Chunk::Thinking(piece) => thought.push_str(piece),
            Chunk::TextWasThinking => panic!("the demo model marks its reasoning"),
            Chunk::Spent(spent) => usage = spent,
            Chunk::Call { .. } | Chunk::CaughtUp => {}
        }
        ControlFlow::Continue(())
    };
    let result = ask(&request, &cancel, &mut sink);
    Heard { text, thinking: thought, usage, chunks, result }
}

fn hear(message: &str) -> Heard {
    ask_on(Fake::default(), vec![Message::user(message)], false)
}

fn tool_result(name: &str, content: &Value) -> Message {
    Message::Tool { id_ref: "demo_call_1".into(), name: name.into(), content: content.to_string() }
}

#[test]
fn the_demo_model_labels_itself_and_echoes() {
    let heard = ask_on(Fake::default(), vec![Message::user("Grüße, world")], true);
    assert!(
        heard.text.starts_with(LABEL) && heard.text.ends_with("You said:\nGrüße, world"),
        "{}",
        heard.text
    );
    assert!(heard.text.contains("no network"));
    assert!(heard.thinking.starts_with("(scripted)"));
    let usage = heard.usage;
    let said = heard.text.chars().count() + heard.thinking.chars().count();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (3, said.div_ceil(4) as u64));
}

#[test]
fn the_demo_model_computes_only_where_the_calculator_is_offered() {
    let call = hear("what is 12*7?").result.expect("answers").tool_calls.pop().expect("a call");
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("calculator", r#"{"expression":"12*7"}"#));
    let clock = Fake::default();
    let request = ModelRequest {
        caller: ModelCaller { user: UserId(1), job: None },
        model: ID.into(),
        messages: vec![Message::user("what is 12*7?")],
        tools: vec![spec("execute_python")],
        temperature: None,
        max_tokens: None,
        thinking: false,
        may_call: true,
        settings: ModelSettings::default(),
    };
    let cancel = CancelToken::new(Arc::new(clock)).with_deadline(10_000);
    let completion = ask(&request, &cancel, &mut |_| ControlFlow::Continue(())).expect("answers");
    assert!(completion.tool_calls.is_empty(), "{:?}", completion.tool_calls);
}

#[test]
fn the_demo_model_calls_a_tool_and_answers_with_its_output() {
    let first = hear("```python\nprint(6*7)\n```").result.expect("answers");
    assert_eq!(first.finish_reason, FinishReason::ToolCalls);
    assert_eq!(first.tool_calls[0].arguments, r#"{"code":"print(6*7)"}"#);
    let asked = Message::Assistant {
        content: String::new(),
        thinking: String::new(),
        tool_calls: first.tool_calls,
        echo: None,
    };
    let result = json!({"success": true, "data": {"output": "42\n"}, "error": null, "execution_time": 0.1});
    let messages =
        vec![Message::user("```python\nprint(6*7)\n```"), asked, tool_result("execute_python", &result)];
    let second = ask_on(Fake::default(), messages.clone(), false);
    assert_eq!(second.text, format!("{LABEL}execute_python printed:\n42\n"));
    assert_eq!(second.result.expect("answers").finish_reason, FinishReason::Stop);
    let next_turn = [messages, vec![Message::assistant("42"), Message::user("tool: calculator {}")]].concat();
    let third = ask_on(Fake::default(), next_turn, false).result.expect("answers");
    assert_eq!(third.tool_calls[0].id_ref, "demo_call_2", "an earlier turn's results do not count");
}

#[test]
fn the_demo_model_reports_tool_failures_and_data() {
    let failed = json!({"success": false, "data": {"output": "so far"}, "error": "ValueError: x"});
    let data = json!({"success": true, "data": {"result": 391}, "error": null});
    let results = [tool_result("execute_python", &failed), tool_result("calculator", &data)];
    let messages = [vec![Message::user("tool: calculator {}")], results.to_vec()].concat();
    let text = ask_on(Fake::default(), messages, false).text;
    let expected = "execute_python failed:\nso far\nValueError: x\n\ncalculator answered: {\"result\":391}";
    assert_eq!(text, format!("{LABEL}{expected}"));
}

#[test]
fn the_demo_model_shows_the_last_value_of_a_program() {
    let data =
        json!({"success": true, "data": {"output": "", "result": "42", "status": "ok"}, "error": null});
    let messages = vec![Message::user("x"), tool_result("execute_javascript", &data)];
    assert_eq!(
        ask_on(Fake::default(), messages, false).text,
        format!("{LABEL}execute_javascript printed:\n=> 42")
    );
}

#[test]
fn the_demo_model_does_not_call_a_tool_that_is_not_offered() {
    let heard = hear("tool: calculator {}\ntool: format_disk {}");
    assert!(heard.result.expect("answers").tool_calls.is_empty());
    assert!(heard.text.contains("'format_disk'") && heard.text.contains("calculator, execute_python"));
}

#[test]
fn the_demo_model_streams_numbered_words_until_it_is_stopped() {
    let heard = hear("stream: 3 words, 1000 ms");
    assert_eq!((heard.text.as_str(), heard.chunks), ("[scripted demo model] word-1 word-2 word-3", 4));
    let stopped = ask_on(
        Fake { stop_at: Some(1000), ..Fake::default() },
        vec![Message::user("stream: 9 words, 1000 ms")],
        false,
    );
    assert_eq!(stopped.result, Err(ModelError::Stopped));
    assert_eq!(stopped.text, "[scripted demo model] word-1 word-2");
    let late = hear("stream: 100 words, 1000 ms");
    assert_eq!(late.result, Err(ModelError::Stopped), "the deadline ends it");
    assert!(late.text.ends_with("word-10"), "{}", late.text);
}
