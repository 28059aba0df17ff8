//! Malformed bodies: odd types, cuts, garbage, floods. None may panic, and none may fail an answer that is
//! complete.

use super::{API, OpenAiReplay, replay, replay_from, stream_of};
use crate::domain::event::FinishReason;
use crate::domain::tool::ToolSpec;
use crate::llm::answer_output::AnswerLimits;
use crate::llm::testing::{LIMITS, Recording, recordings, request};
use crate::ports::{ModelError, ModelRequest};
use serde_json::{Value, json};
use std::io::{Cursor, Read, repeat};

fn body(bytes: impl Into<Vec<u8>>) -> OpenAiReplay {
    replay_from(Cursor::new(bytes.into()), LIMITS, &request(Vec::new()), false)
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn end() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

fn calls(outcome: &OpenAiReplay) -> Vec<(&str, &str, &str)> {
    let calls = outcome.result.iter().flat_map(|completion| &completion.tool_calls);
    calls.map(|call| (call.id_ref.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
}

#[test]
fn odd_fields_never_fail_an_answer() {
    for chunk in [
        json!({"choices": [{"index": "0", "delta": {"content": "x"}, "finish_reason": null, "logprobs": 1}]}),
        json!({"choices": [{"index": -1, "delta": {"content": "x"}}], "created": "now", "id": 5, "model": []}),
        json!({"choices": [{"delta": {"role": 7, "content": "x", "tool_calls": null}}], "usage": null}),
        json!({"choices": {"delta": {"content": "x"}}, "usage": "none", "object": {}}),
        json!({"choices": [null, 3, {"delta": {"content": [{"type": "text", "text": "x"}, null, 3]}}]}),
        json!({"choices": [{"delta": null, "message": {"content": "x"}}], "error": null}),
        json!({"choices": [{"delta": {"content": "x", "message": 1}, "message": {"content": "xx"}}], "error": ""}),
        json!({"choices": [{"delta": {"content": {"text": "x"}, "tool_calls": [null, 1, "a"]}}], "error": {}}),
        json!({"choices": [{"delta": {"content": "x", "tool_calls": {}}}], "error": {"message": "", "code": 0}}),
        json!({"choices": [{"text": "x", "finish_reason": false}], "x_groq": 1, "timings": []}),
        json!({"choices": [{"delta": {"content": "x", "reasoning": {}, "reasoning_details": "odd"}}]}),
        json!({"choices": [{"delta": {"content": "x", "reasoning": ["", null], "refusal": null}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "x"}}, {"index": 1, "delta": {"content": "no"}}]}),
    ] {
        let outcome = replay(&stream_of(&[json!({"choices": null}), chunk.clone(), json!({}), end()]));
        assert!(outcome.result.is_ok(), "{chunk}: {:?}", outcome.result);
        assert_eq!((outcome.text.as_str(), outcome.thinking.as_str()), ("x", ""), "{chunk}");
    }
}

#[test]
fn finish_reasons_of_odd_types_end_an_answer() {
    for (word, reason) in [
        (json!("STOP"), Some(FinishReason::Stop)),
        (json!("MAX_TOKENS"), Some(FinishReason::Length)),
        (json!({"type": "length"}), Some(FinishReason::Length)),
        (json!(1), Some(FinishReason::Stop)),
        (json!(true), Some(FinishReason::Stop)),
        (json!("null"), None),
        (json!(0), None),
        (json!([]), None),
    ] {
        let chunk = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": word}]});
        let ended = replay(&stream_of(&[chunk])).result.ok().map(|completion| completion.finish_reason);
        assert_eq!(ended, reason, "{word}");
    }
}

#[test]
fn reasoning_is_read_once_from_every_field() {
    for piece in [
        json!({"reasoning": "hm"}),
        json!({"reasoning_content": "hm", "reasoning": "hm"}),
        json!({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        json!({"reasoning": null, "reasoning_details": [{"text": "h"}, {"summary": "m"}, {"data": "x"}]}),
        json!({"thinking": "hm"}),
        json!({"reasoning": {"content": "hm"}}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
    ] {
        let outcome = replay(&stream_of(&[delta(&piece), end()]));
        assert_eq!((outcome.thinking.as_str(), outcome.text.as_str()), ("hm", ""), "{piece}");
    }
}

#[test]
fn tool_calls_of_unusual_shapes_are_parsed() {
    for (piece, expected) in [
        (
            json!({"tool_calls": {"id": "a", "function": {"name": "f", "arguments": {"n": 1}}}}),
            ("a", "{\"n\":1}"),
        ),
        (
            json!({"tool_calls": [null, {"index": "0", "id": "a", "function": {"name": "f", "arguments": null}}]}),
            ("a", ""),
        ),
        (json!({"tool_calls": [{"id": 7, "name": "f", "arguments": "{}", "function": null}]}), ("7", "{}")),
        (json!({"function_call": {"name": "f", "arguments": "{}"}}), ("call_0", "{}")),
    ] {
        let outcome = replay(&stream_of(&[delta(&piece), end()]));
        assert_eq!(calls(&outcome), [(expected.0, "f", expected.1)], "{piece}");
    }
}

#[test]
fn split_characters_are_joined() {
    let chunk = |field: &str, text: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"{field}\":\"{text}\"}}}}]}}\n\n")
    };
    let stop = stream_of(&[end()]);
    let (one, two) = (chunk("content", "a\\ud83d"), chunk("content", "\\ude00b"));
    assert_eq!(replay(&format!("{one}{two}{stop}")).text, "a😀b");
    assert_eq!(replay(&format!("{one}{}{two}{stop}", chunk("reasoning", "hm"))).text, "a😀b");
    assert_eq!(replay(&format!("{one}{stop}")).text, "a\u{FFFD}");
    assert_eq!(replay(&format!("{two}{stop}")).text, "\u{FFFD}b");
    let (one, two) = (chunk("reasoning", "a\\ud83d"), chunk("reasoning", "\\ude00b"));
    assert_eq!(replay(&format!("{one}{two}{stop}")).thinking, "a😀b");
    let call = |arguments: &str| {
        let call = format!(
            "{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"f\",\"arguments\":\"{arguments}\"}}}}"
        );
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n")
    };
    let outcome = replay(&format!("{}{}{stop}", call("{\\\"a\\\":\\\"\\ud83d"), call("\\ude00\\\"}")));
    assert_eq!(calls(&outcome), [("a", "f", "{\"a\":\"😀\"}")]);
    // One level further in: the arguments themselves are JSON with a half in it.
    let outcome = replay(&format!("{}{stop}", call("{\\\"a\\\":\\\"\\\\ud83d\\\"}")));
    assert_eq!(calls(&outcome), [("a", "f", "{\"a\":\"\\ufffd\"}")]);
}

#[test]
fn usage_is_found_in_every_place() {
    let counts = |chunks: &[Value]| {
        let usage = replay(&stream_of(&[chunks, &[end()]].concat())).usage;
        (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    };
    let usage = json!({"prompt_tokens": "12", "completion_tokens": 3.0, "total_tokens": 4});
    assert_eq!(counts(&[json!({"usage": usage})]), (12, 3, 15), "a total below the sum is none");
    assert_eq!(counts(&[json!({"choices": [{"delta": {}, "usage": usage}]})]), (12, 3, 15));
    assert_eq!(counts(&[json!({"x_groq": {"usage": usage}})]), (12, 3, 15));
    assert_eq!(counts(&[json!({"usage": {"input_tokens": 1, "output_tokens": 2}})]), (1, 2, 3));
    let odd = json!({"usage": {"prompt_tokens": -5, "completion_tokens": null, "total_tokens": [1]}});
    assert_eq!(counts(std::slice::from_ref(&odd)), (0, 0, 0));
    let later = json!({"usage": {"prompt_tokens": 12, "completion_tokens": 9}});
    assert_eq!(
        counts(&[json!({"usage": usage}), later, odd]),
        (12, 9, 21),
        "the last that says anything holds"
    );
    let reasoned = json!({"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}});
    assert_eq!(counts(&[json!({"usage": reasoned})]), (1, 9, 10));
    let timings = json!({"timings": {"prompt_n": 4, "cache_n": 1, "predicted_n": 2}});
    assert_eq!(counts(std::slice::from_ref(&timings)), (5, 2, 7), "llama.cpp without a usage");
    assert_eq!(counts(&[json!({"usage": usage}), timings]), (12, 3, 15), "measured is not reported");
}

#[test]
fn data_that_goes_back_to_the_provider_is_kept() {
    let signed = json!({"index": 0, "id": "a", "extra_content": {"google": {"thought_signature": "s"}},
        "function": {"name": "f", "arguments": "{}"}});
    let detail =
        |text: &str| json!({"reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]});
    let chunks = [delta(&detail("h")), delta(&detail("m")), delta(&json!({"tool_calls": [signed]})), end()];
    let outcome = replay(&stream_of(&chunks));
    let echo = outcome.result.expect("complete").echo.expect("an echo");
    assert_eq!(echo.model, "m");
    let details = json!([{"type": "reasoning.text", "text": "hm", "index": 0}]);
    let extra = json!({"a": {"google": {"thought_signature": "s"}}});
    assert_eq!(echo.parts, json!({"reasoning_details": details, "extra_content": extra}));
    assert_eq!(replay(&stream_of(&[end()])).result.expect("complete").echo, None);
}

#[test]
fn calls_in_the_text_are_recognized_if_configured() {
    let calc = ToolSpec { name: "calc".into(), description: "d".into(), parameters: json!({}) };
    let tools = vec![calc.into()];
    let request_with_tools = ModelRequest { tools, ..request(Vec::new()) };
    let pieces = ["Let me see.\n<tool", "_call>{\"name\":\"calc\",", "\"arguments\":{\"n\":1}}</tool_call>"];
    let mut chunks: Vec<Value> = pieces.iter().map(|piece| delta(&json!({"content": piece}))).collect();
    chunks.push(end());
    let stream = stream_of(&chunks);
    let read = |request_with_tools: &ModelRequest, on: bool| {
        replay_from(Cursor::new(stream.clone()), LIMITS, request_with_tools, on)
    };
    let outcome = read(&request_with_tools, true);
    assert_eq!(outcome.text, "Let me see.\n");
    assert_eq!(calls(&outcome), [("call_0", "calc", "{\"n\":1}")]);
    assert_eq!(outcome.result.expect("complete").finish_reason, FinishReason::ToolCalls);
    let unread = read(&request_with_tools, false);
    assert_eq!(unread.text, pieces.concat());
    assert_eq!(calls(&unread).len(), 0);
    // In a call that may make none, a call in the text is no answer either; the engine drops it.
    let closing = read(&ModelRequest { may_call: false, ..request_with_tools }, true);
    assert_eq!((closing.text.as_str(), calls(&closing).len()), ("Let me see.\n", 1));
}

/// Cuts of one stream.
const CUTS: usize = 150;

#[test]
fn a_truncated_stream_is_complete_or_a_failure() {
    for Recording { file, body: bytes, expected } in recordings(API, 1) {
        // Every tenth byte of the shorter ones; an odd step lets the longer ones be cut in every part of a
        // chunk, too.
        let step = ((bytes.len() / CUTS) | 1).max(10);
        for cut in (0..bytes.len()).step_by(step) {
            let outcome = body(&bytes[..cut]);
            match &outcome.result {
                Ok(_) => assert_eq!(json!(outcome.text), expected["text"], "{file} cut at {cut}"),
                Err(error) => {
                    let is_told =
                        matches!(error, ModelError::Unavailable { .. }) || !expected["error"].is_null();
                    assert!(is_told, "{file} cut at {cut}: {error}");
                }
            }
        }
    }
}

#[test]
fn garbage_is_unavailable_with_a_clear_message() {
    for (garbage, message) in [
        ("", "empty answer"),
        (" \r\n ", "empty answer"),
        ("<!DOCTYPE html><html>login</html>", "web page"),
        (": only\n: comments\n\n", "cut off"),
        ("data: nonsense\n\ndata: [DONE]\n\n", "cut off"),
        ("data: {\"choices\": [\n\n", "not a chat completion"),
        ("\u{0}\u{0}\u{1}", "cut off"),
        ("{}", "cut off"),
    ] {
        let error = body(garbage).result.expect_err("no answer").to_string();
        assert!(error.contains(message) && !error.contains('<'), "{garbage:?}: {error}");
    }
    let error = body(vec![0xFF, 0xFE, 0x00, 0x9F]).result.expect_err("no answer");
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
}

#[test]
fn errors_of_any_shape_in_a_200_response_are_errors() {
    for chunk in [
        json!([{"error": {"code": 503, "message": "busy"}}]),
        json!({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": null}),
        json!({"code": "rate_limit", "msg": "slow"}),
        json!({"type": "error", "message": "overloaded"}),
        json!({"detail": "server busy"}),
    ] {
        for stream in [chunk.to_string(), stream_of(&[chunk.clone(), end()])] {
            let result = replay(&stream).result;
            let may_succeed_later =
                matches!(result, Err(ModelError::Unavailable { .. } | ModelError::RateLimited { .. }));
            assert!(may_succeed_later, "{chunk}: {result:?}");
        }
    }
}

#[test]
fn invalid_utf8_and_depth_never_fail_an_answer() {
    let stop = stream_of(&[end()]);
    let mut odd = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xFFb\x00c\"}}]}\n\n".to_vec();
    odd.extend(stop.as_bytes());
    assert_eq!(body(odd).text, "a\u{FFFD}b\u{0}c");
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let chunk = format!("data: {{\"x\":{deep},\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n");
    assert_eq!(replay(&format!("{chunk}{stop}")).text, "a");
    let nan = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"logprobs\":NaN}]}\n\n";
    assert_eq!(replay(&format!("{nan}{stop}")).text, "a");
}

/// So many bytes of a piece, again and again.
struct Flood(Vec<u8>, usize, usize);

impl Read for Flood {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let from = self.2 % self.0.len();
        let piece = &self.0[from..];
        let count = piece.len().min(buffer.len()).min(self.1 - self.2);
        buffer[..count].copy_from_slice(&piece[..count]);
        self.2 += count;
        Ok(count)
    }
}

const FLOOD_BYTES: usize = 100 << 20;

#[test]
fn p8_an_endless_line_is_too_large() {
    for start in ["data: ", "{\"a\": \"", "[\"", "", ": "] {
        let flood = Cursor::new(start.as_bytes()).chain(repeat(b'x').take(FLOOD_BYTES as u64));
        let outcome = replay_from(flood, LIMITS, &request(Vec::new()), false);
        assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{start}: {:?}", outcome.result);
    }
}

#[test]
fn p8_many_small_chunks_are_bounded_by_the_answer_limit() {
    let chunk = stream_of(&[delta(&json!({"content": "0123456789"}))]).into_bytes();
    let limits = AnswerLimits { output_bytes: 100_000, ..LIMITS };
    let outcome = replay_from(Flood(chunk, FLOOD_BYTES, 0), limits, &request(Vec::new()), false);
    assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
    assert_eq!(outcome.text.len(), 100_000);
}

#[test]
fn p8_a_flood_of_empty_chunks_is_bounded() {
    let limits = AnswerLimits { output_bytes: 10_000, ..LIMITS };
    for nothing in [": ping\n".to_owned(), stream_of(&[delta(&json!({}))]), "\n".to_owned()] {
        let outcome =
            replay_from(Flood(nothing.into_bytes(), FLOOD_BYTES, 0), limits, &request(Vec::new()), false);
        assert!(matches!(outcome.result, Err(ModelError::TooLarge(_))), "{:?}", outcome.result);
    }
}
