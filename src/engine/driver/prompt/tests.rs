//! Building, repairing and shortening of requests.

use super::*;
use crate::domain::event::{EngineMark, Event, FinishReason, Record};
use crate::domain::job::ConversationTurn;
use crate::domain::job::History;
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::engine::tests::spec;
use crate::engine::turn::TurnState;
use proptest::prelude::*;

fn call(id: &str) -> ToolCall {
    ToolCall { id_ref: id.into(), name: "t".into(), arguments: "{}".into() }
}

fn assistant_with_calls(ids: &[&str]) -> Message {
    Message::Assistant {
        content: String::new(),
        thinking: String::new(),
        tool_calls: ids.iter().map(|id| call(id)).collect(),
        echo: None,
    }
}

fn result(id: &str, content: &str) -> Message {
    Message::Tool { id_ref: id.into(), name: "t".into(), content: content.into() }
}

/// A history of `turns` turns with one tool call each, before a job with the input `now`.
fn base(turns: u64, words: usize) -> PromptBase {
    let text = "word ".repeat(words);
    let turn = |number| ConversationTurn {
        number,
        messages: vec![
            Message::user(format!("question {number} {text}")),
            assistant_with_calls(&["a"]),
            result("a", &text),
            Message::assistant(format!("answer {number} {text}")),
        ],
    };
    let history = History { turns: (1..=turns).map(turn).collect(), ..History::default() };
    let mut spec = spec();
    spec.system_prompt = Some("be brief".into());
    spec.input = vec![Message::System { content: "rules".into() }, Message::user("now")];
    PromptBase::new(&spec, history, None)
}

/// A job after `count` rounds of calls.
fn rounds(count: usize, words: usize) -> TurnState {
    let mut log: Vec<Record> = Vec::new();
    let text = "word ".repeat(words);
    for n in 0..count {
        let index = u32::try_from(n * 2).expect("few");
        let id = format!("c{n}");
        log.push(Event::ToolCall { index, call: call(&id), is_client: false }.into());
        let (finish_reason, usage) = (FinishReason::ToolCalls, Usage::new(1, 1));
        log.push(EngineMark::model_finished(finish_reason, usage, None).into());
        let content = text.clone();
        log.push(
            Event::ToolResult {
                index: index + 1,
                id_ref: id,
                name: "t".into(),
                content,
                skipped: false,
                ended_at_ms: None,
            }
            .into(),
        );
    }
    TurnState::fold(&log)
}

fn shorten(turn: &mut TurnState, content: &str, cut: CutPoint) {
    let (kept_messages, omitted_messages) = (cut.kept_history, cut.omitted_job_messages);
    turn.apply(
        &Event::Summary { content: content.into(), kept_messages, omitted_messages, is_stub: false }.into(),
    );
}

fn has_paired_calls(messages: &[Message]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::Tool { id_ref, .. } => match open.iter().position(|id| id == id_ref) {
                Some(at) => drop(open.remove(at)),
                None => return false,
            },
            _ if !open.is_empty() => return false,
            Message::Assistant { tool_calls, .. } => {
                open = tool_calls.iter().map(|call| call.id_ref.as_str()).collect();
            }
            _ => {}
        }
    }
    open.is_empty()
}

#[test]
fn a_request_has_instructions_history_input_and_the_jobs_own_messages() {
    let messages = base(1, 1).messages(&rounds(1, 1), FinalInstruction::None);
    assert_eq!(messages.len(), 1 + 4 + 2 + 2);
    assert!(matches!(&messages[0], Message::System { content } if content == "be brief"));
    assert_eq!(messages[6], Message::user("now"));
    let continues = base(1, 1).messages(&rounds(1, 1), FinalInstruction::Continue);
    assert!(matches!(continues.last(), Some(Message::User { content, .. }) if content == base::CONTINUE));
}

#[test]
fn results_without_a_call_are_dropped_and_missing_results_are_added() {
    let broken = vec![
        result("lost", "1"),
        assistant_with_calls(&["a", "b"]),
        result("b", "2"),
        result("b", "twice"),
        Message::user("next"),
        result("a", "late"),
        assistant_with_calls(&["c"]),
    ];
    let mended = repair::repair_calls(broken);
    assert!(has_paired_calls(&mended), "{mended:?}");
    let texts: Vec<_> = mended
        .iter()
        .filter_map(|m| match m {
            Message::Tool { id_ref, content, .. } => Some((id_ref.as_str(), content.contains("(cancelled)"))),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [("b", false), ("a", true), ("c", true)]);
}

#[test]
fn the_oldest_turns_are_cut_first_and_the_question_stays() {
    let (base, turn) = (base(6, 100), rounds(3, 10));
    let estimator = TokenEstimator::of_model("gpt-4");
    let budget = PromptBudget { tokens: 1_400, fixed: 10 };
    let cut = base.cut(turn.messages(), base.no_cut(), budget, &estimator).expect("a cut");
    assert_eq!(
        cut,
        CutPoint { kept_history: 2 + 4, omitted_job_messages: 0 },
        "one turn of some 390 tokens, and the input, stay"
    );
    let mut short = turn.clone();
    shorten(&mut short, "five questions", cut);
    let messages = base.messages(&short, FinalInstruction::None);
    assert!(has_paired_calls(&messages), "{messages:?}");
    let Message::User { content, .. } = &messages[1] else { panic!("{messages:?}") };
    assert!(content.contains("five questions") && content.contains("question 6"), "{content}");
    assert_eq!(base.summary_of(short.shortened()).map(|s| s.through), Some(5));
    assert_eq!(base.left_out(turn.messages(), base.no_cut(), cut).len(), 5 * 4);
}

#[test]
fn a_long_job_drops_its_oldest_rounds_but_keeps_question_and_instructions() {
    let (base, mut turn) = (base(1, 1), rounds(8, 200));
    let estimator = TokenEstimator::of_model("gpt-4");
    let budget = PromptBudget { tokens: 1_000, fixed: 0 };
    let cut = base.cut(turn.messages(), base.no_cut(), budget, &estimator).expect("a cut");
    assert_eq!((cut.kept_history, cut.omitted_job_messages), (1, 14), "only the newest round fits");
    shorten(&mut turn, "", cut);
    let messages = base.messages(&turn, FinalInstruction::None);
    assert!(matches!(&messages[1], Message::System { content } if content == "rules"), "{messages:?}");
    assert!(matches!(&messages[2], Message::User { content, .. } if content.ends_with("now")));
    assert!(has_paired_calls(&messages) && messages.len() == 5, "{messages:?}");
    assert_eq!(base.cut(turn.messages(), cut, budget, &estimator), None, "the newest round stays");
    assert_eq!(base.summary_of(turn.shortened()).map(|s| s.through), Some(1));
}

#[test]
fn budgets_shrink_with_every_prompt_that_did_not_fit() {
    let budget = PromptBudget::of_window(8_000, Some(1_000), 0);
    assert_eq!(budget.tokens, 7_000);
    assert!(budget.is_full(6_301) && !budget.is_full(6_300));
    assert_eq!(budget.after_overflows(1).tokens, 4_666);
    assert_eq!(PromptBudget::of_window(8_000, None, 0).tokens, 6_000);
    assert_eq!(PromptBudget::of_window(8_000, Some(65_536), 0).tokens, 4_000, "an answer gets half at most");
}

#[test]
fn a_transcript_is_bounded_and_counts_omitted_entries() {
    let messages: Vec<Message> =
        (0..50).map(|n| Message::user(format!("{n} {}", "x".repeat(5_000)))).collect();
    let refs: Vec<&Message> = messages.iter().collect();
    let text = transcript(Some("before"), &refs, 20_000);
    assert!(text.chars().count() < 21_000, "{}", text.len());
    assert!(text.starts_with("Summary of what came before: before\n\n(46 older entries"), "{text:.80}");
    assert!(text.contains("User: 49 "));
}

proptest! {
    #[test]
    fn no_cut_separates_a_call_from_its_result(turns in 0u64..5, count in 0usize..6, tokens in 0u64..3_000) {
        let (base, mut turn) = (base(turns, 40), rounds(count, 40));
        let estimator = TokenEstimator::of_model("x");
        let (mut now, budget) = (base.no_cut(), PromptBudget { tokens, fixed: 0 });
        while let Some(cut) = base.cut(turn.messages(), now, budget, &estimator) {
            prop_assert!(
                cut.kept_history < now.kept_history || cut.omitted_job_messages > now.omitted_job_messages,
                "{cut:?} behind {now:?}"
            );
            now = cut;
            shorten(&mut turn, "in short", cut);
            let messages = base.messages(&turn, FinalInstruction::None);
            prop_assert!(has_paired_calls(&messages), "{messages:?}");
            let has_question = messages.iter().any(|m| matches!(m, Message::User { content, .. } if content.ends_with("now")));
            prop_assert!(has_question, "the question stays");
        }
    }
}
