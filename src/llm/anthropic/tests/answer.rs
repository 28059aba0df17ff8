//! Hand-made streams for cases that no recording has.

use super::{AnthropicReplay, read, replay, replay_within, stream_of};
use crate::domain::event::FinishReason;
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::llm::answer_output::AnswerLimits;
use crate::llm::testing::{LIMITS, request};
use crate::ports::ModelError;
use serde_json::{Value, json};
use std::io::{Cursor, Read};

fn start(input: u64) -> Value {
    json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": input, "output_tokens": 1}}})
}

#[allow(clippy::needless_pass_by_value, reason = "callers make the block on the spot")]
fn begin(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

#[allow(clippy::needless_pass_by_value, reason = "callers make the delta on the spot")]
fn piece(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u64, text: &str) -> Value {
    piece(index, json!({"type": "text_delta", "text": text}))
}

fn end(reason: &str, output: u64) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn replay_events(events: &[Value]) -> AnthropicReplay {
    replay(&stream_of(events))
}

fn search(id: &str) -> [Value; 2] {
    let call = json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    [begin(0, call), begin(1, found)]
}

#[test]
fn the_start_of_a_message_names_the_model() {
    let mut begun = start(1);
    begun["message"]["model"] = json!("claude-x-20260101");
    let outcome = replay_events(&[begun, text(0, "x"), end("end_turn", 2), stop()]);
    assert_eq!(outcome.result.expect("complete").response_model.as_deref(), Some("claude-x-20260101"));
    let whole = json!({
        "type": "message", "model": "claude-y", "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    let outcome = replay(&whole.to_string());
    assert_eq!(outcome.result.expect("complete").response_model.as_deref(), Some("claude-y"));
}

#[test]
fn every_stop_reason_maps_to_a_finish_reason() {
    for (word, meant) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
        ("tool_use", FinishReason::Stop), // there is no call
        ("something_new", FinishReason::Stop),
    ] {
        let outcome = replay_events(&[start(1), text(0, "x"), end(word, 2), stop()]);
        assert_eq!(outcome.result.expect("complete").finish_reason, meant, "{word}");
    }
}

#[test]
fn a_stream_is_complete_with_a_stop_reason_or_a_stop_event() {
    let begun = [start(1), begin(0, json!({"type": "text", "text": "ha"})), text(0, "lf")];
    let cut = replay_events(&begun);
    assert_eq!(cut.text, "half", "a block may begin with text");
    assert!(matches!(cut.result, Err(ModelError::Unavailable { .. })));
    assert_eq!(cut.usage, Usage::new(1, 1), "what a failed call has cost is known");
    for last in [end("max_tokens", 9), stop()] {
        let whole = replay_events(&[begun.as_slice(), std::slice::from_ref(&last)].concat());
        assert!(whole.result.is_ok(), "{last}");
    }
    let done = replay(&(stream_of(&begun) + "data: [DONE]")).result.expect("complete");
    assert_eq!(done.finish_reason, FinishReason::Stop);
}

#[test]
fn usage_is_reported_when_it_changes_and_a_zero_is_ignored() {
    let usage = json!({"input_tokens": 2, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400, "output_tokens": 1});
    let zeros = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7});
    let outcome = replay_events(&[
        json!({"type": "message_start", "message": {"usage": usage}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": zeros}),
    ]);
    let cached = |usage| Usage { cached_tokens: 400, ..usage };
    assert_eq!(outcome.spent, [cached(Usage::new(432, 1)), cached(Usage::new(432, 7))]);
}

#[test]
fn calls_arrive_whole_or_in_pieces_and_keep_unused_ids() {
    let call = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "t", "input": input});
    let input =
        |index: u64, json: &str| piece(index, json!({"type": "input_json_delta", "partial_json": json}));
    let events = [
        start(1),
        begin(0, call("toolu_a", json!({"n": 1}))),
        begin(1, call("old", json!({}))),
        begin(2, call("", json!({}))),
        input(1, "{\"n\":"),
        input(2, ""),
        input(1, "2}"),
        begin(3, json!({"type": "tool_use", "id": "nameless", "input": {}})),
        input(9, "{}"),
        end("tool_use", 3),
    ];
    let earlier = ToolCall { id_ref: "old".into(), name: "t".into(), arguments: "{}".into() };
    let history = vec![Message::Assistant {
        content: String::new(),
        thinking: String::new(),
        tool_calls: vec![earlier],
        echo: None,
    }];
    let body = stream_of(&events);
    let outcome = read(&request(history), &mut [&mut Cursor::new(body)], 7, LIMITS);
    let completion = outcome.result.expect("complete");
    let calls: Vec<_> =
        completion.tool_calls.iter().map(|c| (c.id_ref.as_str(), c.arguments.as_str())).collect();
    assert_eq!(calls, [("toolu_a", "{\"n\":1}"), ("call_1", "{\"n\":2}"), ("call_2", "{}")]);
    assert_eq!((completion.finish_reason, completion.echo), (FinishReason::ToolCalls, None));
}

#[test]
fn an_echo_has_the_ids_of_the_history_and_only_signed_thinking() {
    let thinking =
        |index, seal: &str| begin(index, json!({"type": "thinking", "thinking": "hm", "signature": seal}));
    let call = json!({"type": "tool_use", "id": "", "name": "t", "input": {}});
    let bad = piece(3, json!({"type": "input_json_delta", "partial_json": "{bad"}));
    let blank = begin(2, json!({"type": "text", "text": " \n"}));
    let outcome = replay_events(&[
        start(1),
        thinking(0, "s"),
        thinking(1, ""),
        blank,
        begin(3, call),
        bad,
        end("tool_use", 1),
    ]);
    let completion = outcome.result.expect("complete");
    let echo = completion.echo.expect("an echo");
    assert_eq!(echo.model, "m");
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "call_0", "name": "t", "input": {"malformed_arguments": "{bad"}},
    ]);
    assert_eq!(echo.parts, expected);
    assert_eq!(completion.tool_calls[0].arguments, "{bad");
    assert_eq!(outcome.thinking, "hmhm", "readers see it all");
    let unsealed = replay_events(&[start(1), thinking(0, ""), text(1, "x"), end("end_turn", 1)]);
    assert_eq!(unsealed.result.expect("complete").echo, None);
}

#[test]
fn a_server_tool_call_without_a_result_is_not_echoed() {
    let [call, found] = search("srv");
    let unanswered = [start(1), call.clone(), text(2, "x"), end("max_tokens", 1)];
    assert_eq!(replay_events(&unanswered).result.expect("complete").echo, None);
    let answered = [start(1), call, found, text(2, "x"), end("max_tokens", 1)];
    let echo = replay_events(&answered).result.expect("complete").echo.expect("an echo");
    assert_eq!(echo.parts.as_array().map(Vec::len), Some(3));
}

#[test]
fn an_answer_with_sources_is_echoed() {
    let source = json!({"type": "char_location", "cited_text": "c"});
    let cited = piece(0, json!({"type": "citations_delta", "citation": source}));
    let outcome = replay_events(&[start(1), text(0, "So it is."), cited, end("end_turn", 1), stop()]);
    let echo = outcome.result.expect("complete").echo.expect("an echo");
    assert_eq!(echo.parts, json!([{"type": "text", "text": "So it is.", "citations": [source]}]));
}

#[test]
fn the_first_stop_reason_counts() {
    let outcome = replay_events(&[start(1), text(0, "x"), end("max_tokens", 2), end("end_turn", 2), stop()]);
    assert_eq!(outcome.result.expect("complete").finish_reason, FinishReason::Length);
}

#[test]
fn unknown_events_are_ignored() {
    let outcome = replay_events(&[
        json!({"type": "vertex_event"}),
        json!({"no": "type"}),
        start(1),
        json!({"type": "ping"}),
        begin(0, json!({"type": "hologram", "text": "not this"})),
        text(0, "nor this"),
        text(1, "a beginning was lost"),
        piece(1, json!({"type": "sparkle_delta", "text": "nor that"})),
        piece(1, json!({"type": "thinking_delta", "thinking": "of another kind"})),
        json!({"type": "content_block_start"}),
        json!({"type": "content_block_delta"}),
        json!({"type": "content_block_stop", "index": 1}),
        end("end_turn", 1),
        stop(),
    ]);
    assert_eq!((outcome.text.as_str(), outcome.thinking.as_str()), ("a beginning was lost", ""));
    assert!(outcome.result.is_ok());
}

#[test]
fn a_paused_answer_continues_and_its_usage_adds_up() {
    let [call, found] = search("srv_1");
    let first = [start(10), text(2, "I look. "), end("pause_turn", 5), stop()];
    let first = stream_of(&[&first[..1], &[call, found], &first[1..]].concat());
    let second = stream_of(&[start(20), text(0, "Still."), end("pause_turn", 6), stop()]);
    let third =
        stream_of(&[start(30), begin(0, json!({"type": "text", "text": " Done."})), end("end_turn", 7)]);
    let mut bodies = [first, second, third].map(Cursor::new);
    let mut bodies: Vec<&mut dyn Read> = bodies.iter_mut().map(|body| body as &mut dyn Read).collect();
    let outcome = read(&request(Vec::new()), &mut bodies, 4096, LIMITS);
    assert_eq!(outcome.text, "I look. Still. Done.");
    let spent = [(10, 1), (10, 5), (30, 6), (30, 11), (60, 12), (60, 18)].map(|(p, c)| Usage::new(p, c));
    assert_eq!(outcome.spent, spent);
    assert_eq!(outcome.pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 4]);
    let completion = outcome.result.expect("complete");
    assert_eq!(completion.finish_reason, FinishReason::Stop);
    assert_eq!(completion.echo.expect("an echo").parts.as_array().map(Vec::len), Some(5));
}

#[test]
fn a_pause_that_cannot_be_continued_is_an_end() {
    let nothing = replay_events(&[start(1), end("pause_turn", 1), stop()]);
    assert_eq!(nothing.result.expect("complete").finish_reason, FinishReason::Length);
    let call = begin(0, json!({"type": "tool_use", "id": "a", "name": "t", "input": {}}));
    let calls = replay_events(&[start(1), call, end("pause_turn", 1), stop()]);
    assert_eq!(calls.result.expect("complete").finish_reason, FinishReason::ToolCalls);
}

#[test]
fn text_is_never_withdrawn() {
    let outcome =
        replay_events(&[start(1), text(0, "Hel"), start(1), text(0, "Hello"), end("end_turn", 2), stop()]);
    assert_eq!(outcome.text, "Hel");
    assert!(matches!(outcome.result, Err(ModelError::Unavailable { .. })), "{:?}", outcome.result);
}

#[test]
fn errors_are_distinguished() {
    let error_of = |kind: &str, message: &str| {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        let streamed = replay_events(&[start(3), text(0, "x"), error.clone()]);
        assert_eq!(streamed.usage, Usage::new(3, 1));
        let whole = replay(&error.to_string()).result;
        assert_eq!(streamed.result, whole, "{kind}");
        let error = whole.expect_err("a failure");
        assert!(!error.to_string().contains("topsecret"), "P9: {error}");
        error
    };
    for kind in ["overloaded_error", "api_error", "timeout_error"] {
        assert!(matches!(error_of(kind, "Overloaded"), ModelError::Unavailable { .. }), "{kind}");
    }
    let limited = error_of("rate_limit_error", "Overloaded");
    assert!(matches!(limited, ModelError::RateLimited { .. }), "{limited:?}");
    for kind in ["authentication_error", "permission_error", "billing_error", "not_found_error"] {
        assert!(matches!(error_of(kind, "key topsecret"), ModelError::Denied(_)), "{kind}");
    }
    let refused = error_of("invalid_request_error", "messages: text content blocks must be non-empty");
    assert!(matches!(refused, ModelError::Refused(_)), "{refused:?}");
    let long = error_of("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum");
    assert!(matches!(long, ModelError::ContextTooLong(_)), "{long:?}");
    let poor = error_of("invalid_request_error", "Your credit balance is too low to access the API");
    assert!(matches!(poor, ModelError::Denied(_)), "{poor:?}");
    assert!(
        matches!(error_of("novel_error", "what"), ModelError::Unavailable { .. }),
        "the request is not to blame"
    );
    let bare = replay("event: error\ndata: provider fell over\n\n").result.expect_err("a failure");
    assert!(bare.to_string().ends_with("provider fell over"), "{bare}");
}

#[test]
fn garbage_is_unavailable() {
    for garbage in [
        "<html>login</html>",
        "data: {\"type\": \n\n",
        "",
        "data: [1]\n\n",
        "{}",
        "{\"a\":",
        "{\"content\":1}",
    ] {
        assert!(matches!(replay(garbage).result, Err(ModelError::Unavailable { .. })), "{garbage}");
    }
    let noise: Vec<u8> = (0..50_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    assert!(matches!(replay_within(&noise, 4096, LIMITS).result, Err(ModelError::Unavailable { .. })));
}

#[test]
fn a_whole_message_without_a_stream_is_read() {
    let whole = json!({
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hi", "citations": null},
            {"type": "tool_use", "id": "a", "name": "t", "input": {"n": 1}},
        ],
        "stop_reason": "tool_use",
        "error": null,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    });
    for slice in [1, 4096] {
        let outcome = replay_within(format!("\n\n  {whole}").as_bytes(), slice, LIMITS);
        assert_eq!((outcome.text.as_str(), outcome.thinking.as_str()), ("hi", "hm"));
        assert_eq!(outcome.usage, Usage::new(1, 2));
        let completion = outcome.result.expect("complete");
        assert_eq!(completion.tool_calls[0].arguments, "{\"n\":1}");
        assert_eq!(completion.echo.expect("an echo").parts.as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn p8_answer_size_is_bounded() {
    let limits = AnswerLimits { output_bytes: 25, tool_calls: 2, tool_arguments_bytes: 10 };
    let too_large = |events: &[Value], limits| {
        let outcome = replay_within(stream_of(events).as_bytes(), 7, limits);
        assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
        outcome
    };
    let outcome = too_large(&vec![text(0, "0123456789"); 3], limits);
    assert_eq!(outcome.text.len(), 20, "what was within the bound has been handed on");
    let wide = AnswerLimits { output_bytes: 100_000, ..limits };
    let call = |index, input: Value| {
        begin(index, json!({"type": "tool_use", "id": "a", "name": "t", "input": input}))
    };
    too_large(&[call(0, json!({})), call(1, json!({})), call(2, json!({}))], wide);
    too_large(&[call(0, json!({"long": "argument"}))], wide);
    too_large(
        &[call(0, json!({})), piece(0, json!({"type": "input_json_delta", "partial_json": "01234567890"}))],
        wide,
    );
    let sealed = begin(0, json!({"type": "redacted_thinking", "data": "x".repeat(30_000)}));
    too_large(&vec![sealed; 4], wide);
    let empty: Vec<Value> =
        (0..20_000).map(|index| begin(index, json!({"type": "text", "text": ""}))).collect();
    too_large(&empty, wide);
}

#[test]
fn p8_an_endless_line_is_refused() {
    const ENDLESS: u64 = 100 << 20;
    for start in ["data: ", "{\"content\": ["] {
        let mut body = Cursor::new(start).chain(std::io::repeat(b'x').take(ENDLESS));
        let outcome = read(&request(Vec::new()), &mut [&mut body], 1 << 16, LIMITS);
        assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
        let (_, rest) = body.into_inner();
        assert!(rest.limit() > ENDLESS - (8 << 20), "it was not read to its end");
    }
}

#[test]
fn p8_endless_pings_are_refused() {
    let pings = "event: ping\ndata: {\"type\": \"ping\"}\n\n".repeat(20_000);
    let limits = AnswerLimits { output_bytes: 100, ..LIMITS };
    let outcome = replay_within(pings.as_bytes(), 4096, limits);
    assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
}

#[test]
fn a_split_character_is_joined_and_pings_are_ignored() {
    let body = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n\
                event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
                event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\\ud83d\"}}\n\n\
                event: ping\ndata: pong\n\n\
                event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ude00b\"}}\n\n\
                event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
                event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let outcome = replay(body);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    assert_eq!(outcome.text, "a\u{1F600}b");
}
