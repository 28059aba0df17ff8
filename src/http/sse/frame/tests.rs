//! Rendering against a reader who believes every frame: whatever the pages and wherever it resumes, it ends
//! with the text that the log holds.

use super::*;
use crate::domain::event::{FailureCode, FinishReason, StatusPhase};
use crate::domain::tool::ToolCall as Call;
use crate::domain::usage::Usage;
use crate::http::testing::step_text;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A log with steps of text, each in pieces, and a tool call between some of them.
fn log(steps: &[(bool, Vec<String>, bool)]) -> Vec<SequencedEvent> {
    let mut events = Vec::new();
    let mut push = |event| {
        let seq = events.len() as u64 + 1;
        events.push(SequencedEvent::new(seq, event));
        seq
    };
    push(Event::Status { status: StatusPhase::Running, attempt: 1, reason: None });
    let mut index = 0;
    for (thinking, pieces, tool) in steps {
        let kind = if *thinking { StepKind::Thinking } else { StepKind::Text };
        let (mut offset, mut first_seq) = (0, 0);
        for text in pieces.iter().filter(|text| !text.is_empty()) {
            let event = Event::Delta { index, kind, offset, first_seq, text: text.clone() };
            offset += text.len() as u64;
            let seq = push(event);
            first_seq = if first_seq == 0 { seq } else { first_seq };
        }
        index += 1;
        if *tool {
            let call =
                Call { id_ref: format!("call_{index}"), name: "calculator".into(), arguments: "{}".into() };
            push(Event::ToolCall { index, call, is_client: false });
            index += 1;
        }
    }
    push(Event::Error { content: "over\n".into(), code: FailureCode::Cancelled, retry_after_ms: None });
    for SequencedEvent { seq, event, .. } in &mut events {
        if let Event::Delta { first_seq: first_seq @ 0, .. } = event {
            *first_seq = *seq;
        }
    }
    events
}

fn steps() -> impl Strategy<Value = Vec<(bool, Vec<String>, bool)>> {
    let piece = prop_oneof!["\\PC{1,6}", Just("é\n\r\u{2028}".to_owned()), Just("\u{0}\"\\".to_owned())];
    prop::collection::vec((any::<bool>(), prop::collection::vec(piece, 0..7), any::<bool>()), 0..5)
}

/// Renders a page at the log's end, as the bytes that a reader gets.
fn rendered(
    renderer: &mut FrameRenderer,
    events: &[SequencedEvent],
    earlier: EarlierText<'_>,
) -> Result<Vec<u8>, FrameError> {
    let last_seq = events.last().map_or(0, |numbered| numbered.seq);
    bytes(renderer.render(&EventPage { events: events.to_vec(), last_seq }, earlier)?, events)
}

/// What the parts are on the wire, when long frames are made of this log in pages of two.
fn bytes(parts: Vec<PagePart>, events: &[SequencedEvent]) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            PagePart::Frames(frames) => out.extend(frames),
            PagePart::Long(mut frame) => {
                while !frame.is_whole() {
                    let rest = events.iter().filter(|numbered| numbered.seq > frame.cursor());
                    let page: Vec<SequencedEvent> = rest.take(2).cloned().collect();
                    out.extend(frame.piece(&page)?);
                }
            }
        }
    }
    Ok(out)
}

/// Renders the log after `after`, in pages of the given sizes, taken in turn.
fn frames(
    events: &[SequencedEvent],
    after: u64,
    sizes: &[usize],
    wire: StreamFormat,
    text: TextMode,
) -> String {
    frames_of(FrameRenderer::new(wire, text), events, after, sizes)
}

fn frames_of(mut renderer: FrameRenderer, events: &[SequencedEvent], after: u64, sizes: &[usize]) -> String {
    let last_seq = events.last().map_or(0, |numbered| numbered.seq);
    let earlier = |first, up_to| Ok(step_text(events, first, up_to));
    let mut rest = &events[usize::try_from(after).expect("small")..];
    let mut out = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (page, next) = rest.split_at((*size).min(rest.len()));
        let page = EventPage { events: page.to_vec(), last_seq };
        out.extend(bytes(renderer.render(&page, &earlier).expect("renders"), events).expect("a frame"));
        rest = next;
    }
    String::from_utf8(out).expect("UTF-8")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// The text of each step as the log has it.
fn truth(events: &[SequencedEvent]) -> BTreeMap<u64, String> {
    let mut texts = BTreeMap::new();
    for numbered in events {
        if let Event::Delta { index, text, .. } = &numbered.event {
            texts.entry(u64::from(*index)).or_insert_with(String::new).push_str(text);
        }
    }
    texts
}

proptest! {
    #[test]
    fn a_client_that_resumes_anywhere_gets_the_whole_text(
        steps in steps(),
        sizes in prop::collection::vec(1_usize..9, 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let events = log(&steps);
        let after = cut.index(events.len()) as u64;
        let mut seen = BTreeMap::new();
        // The first connection saw everything up to the cut, the second one goes on after it.
        let first = frames(&events[..usize::try_from(after).unwrap()], 0, &sizes, StreamFormat::Ndjson, TextMode::Cumulative);
        let second = frames(&events, after, &sizes, StreamFormat::Ndjson, TextMode::Cumulative);
        let mut last = 0;
        for line in lines(&first).into_iter().chain(lines(&second)) {
            let id = line["id"].as_u64().expect("an id");
            prop_assert!(id > last, "ids rise: {} after {}", id, last);
            last = id;
            if let Some(content) = line["data"]["content"].as_str().filter(|_| line["event"] == "process_step") {
                seen.insert(line["data"]["index"].as_u64().expect("an index"), content.to_owned());
            }
        }
        prop_assert_eq!(seen, truth(&events));
        prop_assert_eq!(last, events.len() as u64, "the newest id is never skipped");
    }

    #[test]
    fn long_frames_have_the_same_content_as_short_ones(
        steps in steps(),
        sizes in prop::collection::vec(1_usize..9, 1..5),
        held_bytes in 0_usize..12,
        sse: bool,
    ) {
        let events = log(&steps);
        let wire = if sse { StreamFormat::Sse } else { StreamFormat::Ndjson };
        let renderer = || FrameRenderer::new(wire, TextMode::Cumulative);
        // All in one page: the same frames to the byte. In several: a newer frame may stand for older ones.
        let long = FrameRenderer { held_bytes, ..renderer() };
        prop_assert_eq!(frames_of(long, &events, 0, &[999]), frames_of(renderer(), &events, 0, &[999]));
        let long = frames_of(FrameRenderer { held_bytes, ..renderer() }, &events, 0, &sizes);
        let short = frames_of(renderer(), &events, 0, &sizes);
        let end = if sse { "\n\n" } else { "\n" };
        let all: Vec<&str> = short.split_terminator(end).collect();
        let told: Vec<&str> = long.split_terminator(end).collect();
        prop_assert!(told.iter().all(|frame| all.contains(frame)));
        prop_assert!(told.len() <= all.len() && told.last() == all.last());
        if !sse {
            let last = |text: &str| {
                let all = lines(text).into_iter().filter(|line| line["event"] == "process_step");
                all.map(|line| (line["data"]["index"].as_u64(), line["data"].clone())).collect::<BTreeMap<_, _>>()
            };
            prop_assert_eq!(last(&long), last(&short));
        }
    }

    #[test]
    fn delta_mode_sends_one_frame_per_event(steps in steps(), sizes in prop::collection::vec(1_usize..9, 1..5)) {
        let events = log(&steps);
        let mut seen: BTreeMap<u64, String> = BTreeMap::new();
        for (at, line) in lines(&frames(&events, 0, &sizes, StreamFormat::Ndjson, TextMode::Delta)).into_iter().enumerate() {
            prop_assert_eq!(line["id"].as_u64(), Some(at as u64 + 1), "one frame per event, no gap");
            if let Some(delta) = line["data"]["delta"].as_str() {
                let text = seen.entry(line["data"]["index"].as_u64().expect("an index")).or_default();
                prop_assert_eq!(line["data"]["offset"].as_u64(), Some(text.len() as u64), "offsets count bytes");
                text.push_str(delta);
            }
        }
        prop_assert_eq!(seen, truth(&events));
    }

    #[test]
    fn both_formats_have_the_same_content_and_sse_data_is_one_line(steps in steps(), delta: bool) {
        let events = log(&steps);
        let text = if delta { TextMode::Delta } else { TextMode::Cumulative };
        let sse = frames(&events, 0, &[3], StreamFormat::Sse, text);
        let ndjson = lines(&frames(&events, 0, &[3], StreamFormat::Ndjson, text));
        prop_assert!(sse.ends_with("\n\n") && !sse.contains('\r') && !sse.contains('\0'));
        let blocks: Vec<&str> = sse.split_terminator("\n\n").collect();
        prop_assert_eq!(blocks.len(), ndjson.len());
        for (block, line) in blocks.iter().zip(&ndjson) {
            let parts: Vec<&str> = block.split('\n').collect();
            prop_assert_eq!(parts.len(), 3);
            prop_assert_eq!(parts[0].strip_prefix("id: ").map(str::to_owned), Some(line["id"].to_string()));
            prop_assert_eq!(parts[1].strip_prefix("event: "), line["event"].as_str());
            let data: Value = serde_json::from_str(parts[2].strip_prefix("data: ").expect("data")).expect("JSON");
            prop_assert_eq!(&data, &line["data"]);
        }
    }
}

fn delta(seq: u64, index: u32, offset: u64, first_seq: u64, text: &str) -> SequencedEvent {
    SequencedEvent::new(
        seq,
        Event::Delta { index, kind: StepKind::Text, offset, first_seq, text: text.into() },
    )
}

#[test]
fn a_page_has_one_frame_per_step_with_the_newest_id() {
    let page =
        [delta(1, 0, 0, 1, "a"), delta(2, 0, 1, 1, "b"), delta(3, 1, 0, 3, "c"), delta(4, 1, 1, 3, "d")];
    let out =
        rendered(&mut FrameRenderer::new(StreamFormat::Ndjson, TextMode::Cumulative), &page, &|_, _| {
            unreachable!("all is in the page")
        });
    let lines = lines(&String::from_utf8(out.expect("renders")).expect("UTF-8"));
    assert_eq!(
        lines,
        [
            json!({"id":2,"event":"process_step","data":{"id":"step-0","index":0,"type":"text","content":"ab"}}),
            json!({"id":4,"event":"process_step","data":{"id":"step-1","index":1,"type":"text","content":"cd"}}),
        ]
    );
}

#[test]
fn cached_step_text_avoids_reads_and_long_text_is_not_cached() {
    let long = "x".repeat(HELD_BYTES + 1);
    let mut renderer = FrameRenderer::new(StreamFormat::Sse, TextMode::Cumulative);
    let never = |_, _| unreachable!("held");
    rendered(&mut renderer, &[delta(1, 0, 0, 1, "ab")], &never).expect("renders");
    rendered(&mut renderer, &[delta(2, 0, 2, 1, "cd")], &never).expect("renders");
    assert!(renderer.has_step_text());
    let page = |events: Vec<SequencedEvent>| EventPage { last_seq: events[0].seq, events };
    for late in [delta(3, 0, 4, 1, &long), delta(4, 0, 5 + HELD_BYTES as u64, 1, "e")] {
        let parts = renderer.render(&page(vec![late]), &never).expect("renders");
        assert!(matches!(parts[..], [PagePart::Long(_)]), "{parts:?}");
        assert!(renderer.held.is_none());
    }
}

#[test]
fn a_long_text_that_continues_on_the_next_page_is_sent_once() {
    let mut renderer =
        FrameRenderer { held_bytes: 2, ..FrameRenderer::new(StreamFormat::Ndjson, TextMode::Cumulative) };
    let never = |_, _| unreachable!("long");
    let log: Vec<SequencedEvent> = (1..=6)
        .map(|seq| delta(seq, u32::from(seq == 6), if seq == 6 { 0 } else { (seq - 1) * 3 }, 1, "abc"))
        .collect();
    let mut page = |events: &[SequencedEvent], last_seq| {
        let parts =
            renderer.render(&EventPage { events: events.to_vec(), last_seq }, &never).expect("renders");
        lines(&String::from_utf8(bytes(parts, &log).expect("frames")).expect("UTF-8"))
    };
    assert!(page(&log[..2], 3).is_empty(), "the log goes on");
    assert_eq!(page(&log[2..3], 3)[0]["data"]["content"], "abcabcabc", "here it ended, so far");
    assert!(page(&log[3..5], 6).is_empty());
    let told: Vec<u64> = page(&log[5..], 6).iter().map(|line| line["id"].as_u64().expect("an id")).collect();
    assert_eq!(told, [5, 6], "another step: the one before is told first");
    assert!(page(&log[..1], 2).is_empty());
    assert_eq!(page(&[], 2).len(), 1, "nothing more, after all");
}

#[test]
fn cached_text_that_does_not_match_the_page_is_read_again() {
    let mut renderer = FrameRenderer::new(StreamFormat::Ndjson, TextMode::Cumulative);
    rendered(&mut renderer, &[delta(1, 0, 0, 1, "ab")], &|_, _| unreachable!("a whole step"))
        .expect("renders");
    let out =
        rendered(&mut renderer, &[delta(3, 0, 4, 1, "e")], &|_, _| Ok("abcde".to_owned())).expect("renders");
    assert!(String::from_utf8(out).expect("UTF-8").contains("abcde"));
}

#[test]
fn text_of_the_wrong_length_is_an_error() {
    let mut renderer = FrameRenderer::new(StreamFormat::Sse, TextMode::Cumulative);
    let torn = rendered(&mut renderer, &[delta(9, 0, 5, 3, "x")], &|_, _| Ok("short".to_owned()));
    assert!(matches!(torn, Err(FrameError::Torn { index: 0, expected: 6, found: 5 })), "{torn:?}");
}

#[test]
fn every_event_frame_has_the_documented_fields() {
    let id = crate::domain::id::JobId::from_bits(5).message_id();
    let call = Call { id_ref: "c1".into(), name: "n".into(), arguments: "{\"a\":1}".into() };
    let result = Event::ToolResult {
        index: 2,
        id_ref: "c1".into(),
        name: "n".into(),
        content: "{}".into(),
        skipped: false,
        ended_at_ms: None,
    };
    let done = Event::Done {
        message_id: id,
        token_count: 2,
        suggested_title: None,
        usage: Usage::new(1, 2),
        finish_reason: FinishReason::Stop,
        stop_sequence: None,
    };
    let usage = json!({"prompt_tokens":1,"completion_tokens":2,"total_tokens":3});
    let retrying = Event::Status { status: StatusPhase::Retrying, attempt: 1, reason: Some("busy".into()) };
    for (event, name, data) in [
        (
            Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None },
            "status",
            json!({"status":"queued","attempt":0}),
        ),
        (retrying, "status", json!({"status":"retrying","attempt":1,"reason":"busy"})),
        (
            Event::WaitingApproval { attempt: 0, reason: "bash (c1) waits".into(), calls: vec!["c1".into()] },
            "status",
            json!({"status":"waiting_approval","attempt":0,"reason":"bash (c1) waits","calls":["c1"]}),
        ),
        (
            Event::ToolCall { index: 1, call, is_client: false },
            "process_step",
            json!({"id":"step-1","index":1,"type":"tool_call","id_ref":"c1","name":"n","arguments":"{\"a\":1}"}),
        ),
        (
            result,
            "process_step",
            json!({"id":"step-2","index":2,"type":"tool_result","id_ref":"c1","name":"n","content":"{}","skipped":false}),
        ),
        (Event::StepDiscarded { index: 3 }, "step_discarded", json!({"id":"step-3"})),
        (
            done,
            "done",
            json!({"message_id":id.to_string(),"token_count":2,"suggested_title":null,"usage":usage,"finish_reason":"stop"}),
        ),
        (
            Event::Error { content: "c".into(), code: FailureCode::Timeout, retry_after_ms: None },
            "error",
            json!({"content":"c","code":"timeout"}),
        ),
    ] {
        let page = [SequencedEvent::new(7, event)];
        let out = rendered(&mut FrameRenderer::new(StreamFormat::Ndjson, TextMode::Delta), &page, &|_, _| {
            Ok(String::new())
        })
        .expect("renders");
        let line = lines(&String::from_utf8(out).expect("UTF-8"));
        assert_eq!(line, [json!({"id":7,"event":name,"data":data})]);
    }
}

fn tell(events: &[SequencedEvent], after: u64, text: TextMode) -> Vec<(u64, String, Value)> {
    let page: Vec<_> = events.iter().filter(|event| event.seq > after).cloned().collect();
    let mut renderer = FrameRenderer::new(StreamFormat::Ndjson, text).after(after);
    let out = rendered(&mut renderer, &page, &|_, _| unreachable!("a whole step")).expect("renders");
    let view = |line: &Value| {
        let name = line["event"].as_str().expect("a name").to_owned();
        (line["id"].as_u64().expect("an id"), name, line["data"].clone())
    };
    lines(std::str::from_utf8(&out).expect("UTF-8")).iter().map(view).collect()
}

#[test]
fn the_first_frame_after_a_resume_counts_the_events_that_it_contains() {
    let events: Vec<_> =
        ["a", "b", "c", "d"].iter().zip(1..).map(|(text, seq)| delta(seq, 0, seq - 1, 1, text)).collect();
    let mut renderer = FrameRenderer::new(StreamFormat::Ndjson, TextMode::Cumulative).after(1);
    let earlier = |_, up_to: u64| Ok("abcd".chars().take(usize::try_from(up_to).unwrap()).collect());
    let first = rendered(&mut renderer, &events[1..3], &earlier).unwrap();
    let second = rendered(&mut renderer, &events[3..], &earlier).unwrap();
    let data = |frame: Vec<u8>| lines(&String::from_utf8(frame).unwrap())[0]["data"].clone();
    let (first, second) = (data(first), data(second));
    assert_eq!((&first["content"], &first["merged"]), (&json!("abc"), &json!(1)), "event 2 has no frame");
    assert_eq!((&second["content"], second.get("merged")), (&json!("abcd"), None));
    let mut fresh = FrameRenderer::new(StreamFormat::Ndjson, TextMode::Cumulative).after(0);
    let frame = data(rendered(&mut fresh, &events, &earlier).unwrap());
    assert_eq!(frame.get("merged"), None, "a first read is no resume");
}

#[test]
fn a_folded_step_sends_a_gap_in_delta_mode_only() {
    let status = Event::Status { status: StatusPhase::Running, attempt: 1, reason: None };
    let over = Event::Error { content: "over".into(), code: FailureCode::Cancelled, retry_after_ms: None };
    let events = [SequencedEvent::new(2, status), delta(6, 0, 0, 6, "whole"), SequencedEvent::new(7, over)];
    let gap = |from: u64, to: u64| (to, "gap".to_owned(), json!({"from": from, "to": to}));
    let pieces = tell(&events, 0, TextMode::Delta);
    assert_eq!((&pieces[0], &pieces[2]), (&gap(1, 1), &gap(3, 5)));
    assert_eq!(tell(&events, 4, TextMode::Delta)[0], gap(5, 5));
    assert!(tell(&events, 5, TextMode::Delta).iter().all(|(_, name, _)| name != "gap"));
    for after in 0..7 {
        let shown = tell(&events, after, TextMode::Cumulative);
        assert!(shown.iter().all(|(_, name, _)| name != "gap"), "{shown:?}");
    }
}

#[test]
fn a_truncated_log_sends_a_gap_in_both_modes() {
    let over = Event::Error { content: "over".into(), code: FailureCode::Cancelled, retry_after_ms: None };
    let events = [SequencedEvent::new(9, over)];
    for text in [TextMode::Delta, TextMode::Cumulative] {
        for after in 0..8 {
            let shown = tell(&events, after, text);
            assert_eq!(shown[0], (8, "gap".to_owned(), json!({"from": after + 1, "to": 8})));
            assert_eq!(shown[1].1, "error");
        }
        assert_eq!(tell(&events, 8, text).len(), 1);
    }
}

#[test]
fn pieces_of_a_call_have_frames_in_delta_mode_only() {
    let kind = StepKind::Arguments;
    let piece = |seq, offset, text: &str| {
        let event = Event::Delta { index: 1, kind, offset, first_seq: 4, text: text.to_owned() };
        SequencedEvent::new(seq, event)
    };
    let call = Call { id_ref: "call_1".into(), name: "look".into(), arguments: "{\"n\":1}".into() };
    let events = [
        delta(2, 0, 0, 2, "Let me look."),
        SequencedEvent::new(3, Event::CallBegun { index: 1, name: "look".into() }),
        piece(4, 0, "{\"n\":"),
        piece(5, 5, "1}"),
        SequencedEvent::new(6, Event::ToolCall { index: 1, call, is_client: true }),
    ];
    let cumulative = tell(&events, 1, TextMode::Cumulative);
    assert_eq!(cumulative.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [2, 6]);
    let shown = tell(&events, 1, TextMode::Delta);
    assert_eq!(shown.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    let begun =
        json!({"id": "step-1", "index": 1, "type": "arguments", "name": "look", "delta": "", "offset": 0});
    assert_eq!((shown[1].1.as_str(), &shown[1].2), ("process_step", &begun));
    let piece = json!({"id": "step-1", "index": 1, "type": "arguments", "delta": "1}", "offset": 5});
    assert_eq!(shown[3].2, piece);
    let resumed = tell(&events[2..], 3, TextMode::Cumulative);
    assert_eq!((resumed.len(), &resumed[0].2["merged"]), (1, &Value::Null), "{resumed:?}");
}
