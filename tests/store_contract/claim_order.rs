//! Which job is claimed next: priority, fairness, time, conversations, and limits.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, job, turn};
use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::id::UserId;
use nanoclaw::domain::job::{JobOutcome, Priority};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{CancelToken, SubmitError};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn users_take_turns_within_a_priority() {
    let fixture = Fixture::new();
    fixture.store.submit((1..=6).map(|n| job(n, ANN)).collect()).wait().unwrap();
    fixture.submit([job(7, BOB), job(8, BOB)]);
    let order: Vec<_> = [1, 7, 2, 8, 3, 4, 5, 6].map(id).into();
    assert_eq!(fixture.claim_all(), order);
}

#[test]
fn users_take_turns_whoever_has_waited_for_longer() {
    let fixture = Fixture::new();
    for (n, user) in [(1, ANN), (2, ANN), (3, ANN), (4, BOB)] {
        fixture.submit([job(n, user)]);
        fixture.clock.advance(1_000);
    }
    let order: Vec<_> = (0..4).map(|_| fixture.claim().job.id).collect();
    assert_eq!(order, [1, 4, 2, 3].map(id));
}

#[test]
fn a_new_user_does_not_wait_behind_a_backlog_and_gets_no_credit() {
    let fixture = Fixture::new();
    fixture.store.submit((1..=100).map(|n| job(n, ANN)).collect()).wait().unwrap();
    fixture.store.claim(50).wait().unwrap();
    fixture.store.submit((201..=210).map(|n| job(n, BOB)).collect()).wait().unwrap();
    let next: Vec<_> = fixture.claim_all().into_iter().take(6).collect();
    assert_eq!(next, [51, 201, 52, 202, 53, 203].map(id));
}

#[test]
fn a_long_waiting_job_precedes_newer_jobs_of_higher_priority() {
    let fixture = Fixture::new();
    let with = |n, level| {
        let mut new = job(n, ANN);
        new.spec.priority = Priority::new(level).unwrap();
        new
    };
    fixture.submit([with(1, 9)]);
    fixture.clock.advance(4 * 60_000 - 1);
    fixture.submit([with(2, 5)]);
    assert_eq!(fixture.claim().job.id, id(2), "one millisecond short of four priorities");
    fixture.clock.advance(2);
    fixture.submit([with(3, 5), with(4, 0)]);
    assert_eq!(
        fixture.claim_all(),
        [id(4), id(1), id(3)],
        "by waiting it precedes priority 5 but not priority 0"
    );
}

#[test]
fn priority_goes_before_fairness() {
    let fixture = Fixture::new();
    let mut urgent = job(9, ANN);
    urgent.spec.priority = Priority::new(0).unwrap();
    fixture.submit([job(1, ANN), job(2, BOB), urgent]);
    assert_eq!(fixture.claim_all(), [9, 1, 2].map(id));
}

#[test]
fn a_delayed_job_waits_for_its_time_and_wakes_a_worker() {
    let fixture = Fixture::new();
    let mut later = job(1, ANN);
    later.spec.run_at_ms = Some(1_000_050);
    fixture.submit([later]);
    assert_eq!(fixture.claim_all(), []);
    fixture.clock.advance(49);
    assert_eq!(fixture.claim_all(), []);
    let (sender, receiver) = std::sync::mpsc::channel();
    let store = std::sync::Arc::clone(&fixture.store);
    std::thread::spawn(move || {
        let stop = CancelToken::new(Arc::new(SystemClock::new()));
        sender.send(store.claim_next(&stop, Duration::from_secs(30))).unwrap();
    });
    assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err(), "not due yet");
    fixture.clock.advance(1);
    let claimed = receiver.recv_timeout(Duration::from_secs(1)).unwrap().unwrap();
    assert_eq!(claimed.map(|lease| lease.job.id), Some(id(1)));
    assert_eq!(fixture.claim_all(), []);
    assert_eq!(fixture.crash().claim_all(), [id(1)], "still one job after a crash");
}

#[test]
fn jobs_of_a_conversation_run_one_at_a_time_in_order_of_acceptance() {
    let fixture = Fixture::new();
    let mut first = turn(1, ANN, "chat");
    first.spec.priority = Priority::new(9).unwrap();
    fixture.submit([
        first,
        turn(2, ANN, "chat"),
        turn(3, ANN, "chat"),
        turn(4, BOB, "chat"),
        turn(5, ANN, "chat2"),
    ]);
    let leases = fixture.store.claim(10).wait().unwrap();
    let ids: Vec<_> = leases.iter().map(|l| l.job.id).collect();
    assert_eq!(
        ids,
        [4, 5, 1].map(id),
        "p7: conversations of different users with the same name are separate"
    );
    assert_eq!(fixture.claim_all(), []);
    fixture.store.finish(leases[2].fence(), vec![], done(id(1), "one")).wait().unwrap();
    let second = fixture.claim();
    assert_eq!(second.job.id, id(2));
    assert_eq!(fixture.claim_all(), []);
    fixture.store.release(second.fence()).wait().unwrap();
    assert_eq!(fixture.claim_all(), [id(2)], "a released job keeps its position");
}

#[test]
fn cancelling_a_queued_job_lets_the_next_job_of_its_conversation_run() {
    let fixture = Fixture::new();
    fixture.submit((1..=4).map(|n| turn(n, ANN, "chat")));
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    assert_eq!(fixture.claim_all(), [id(3)]);
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn the_history_contains_the_earlier_turns_of_the_conversation() {
    let fixture = Fixture::new();
    for n in 1..=3 {
        fixture.submit([turn(n, ANN, "chat")]);
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![], done(id(n), &format!("answer {n}"))).wait().unwrap();
    }
    fixture.submit([turn(4, ANN, "chat"), turn(5, BOB, "chat"), turn(6, ANN, "chat2")]);
    let job = |user, n| fixture.store.job(user, id(n)).unwrap().unwrap();
    let texts = |n, max| {
        let messages = fixture.store.history(&job(ANN, n), max).unwrap().into_messages();
        messages.into_iter().map(|m| match m {
            Message::User { content, .. } | Message::Assistant { content, .. } => content,
            other => panic!("{other:?}"),
        })
    };
    assert!(
        texts(4, 3).eq(["question 3", "answer 3"].map(str::to_owned)),
        "the history contains no answer without its question"
    );
    assert_eq!(texts(4, 100).count(), 6);
    assert_eq!(texts(2, 100).count(), 2, "only earlier turns");
    assert_eq!(texts(6, 100).count(), 0);
    assert!(fixture.store.history(&job(BOB, 5), 100).unwrap().into_messages().is_empty(), "p7");
}

/// A turn with `calls` tool calls and their results.
fn busy(n: u128, calls: usize) -> JobOutcome {
    let mut ending = done(id(n), "x");
    let call = |at: usize| ToolCall {
        id_ref: format!("call-{n}-{at}"),
        name: "calculator".to_owned(),
        arguments: "{}".to_owned(),
    };
    let called = |at| Message::Assistant {
        content: String::new(),
        thinking: String::new(),
        tool_calls: vec![call(at)],
        echo: None,
    };
    let answered = |at| Message::Tool {
        id_ref: call(at).id_ref,
        name: "calculator".to_owned(),
        content: "{}".to_owned(),
    };
    ending.messages = (0..calls).flat_map(|at| [called(at), answered(at)]).collect();
    ending.messages.push(Message::assistant(format!("answer {n}")));
    ending
}

#[test]
fn a_truncated_history_never_starts_with_an_orphaned_tool_result() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat"), turn(3, ANN, "chat")]);
    for (n, calls) in [(1, 3), (2, 50)] {
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![], busy(n, calls)).wait().unwrap();
    }
    let job = fixture.store.job(ANN, id(3)).unwrap().unwrap();
    let complete = fixture.store.history(&job, 1_000).unwrap().into_messages();
    assert_eq!(complete.len(), 8 + 102);
    for max in 0..=complete.len() {
        let messages = fixture.store.history(&job, max).unwrap().into_messages();
        assert!(messages.len() <= max);
        let head = messages.first();
        assert!(head.is_none_or(|m| matches!(m, Message::User { .. })), "{max}: {head:?}");
        let dangling = messages.iter().enumerate().any(|(at, message)| {
            let earlier = messages[..at].iter();
            let Message::Tool { id_ref, .. } = message else { return false };
            !earlier.clone().any(|m| matches!(m, Message::Assistant { tool_calls, .. } if tool_calls.iter().any(|c| c.id_ref == *id_ref)))
        });
        assert!(!dangling, "{max}");
    }
    let last = fixture.store.history(&job, 20).unwrap().into_messages();
    assert_eq!(
        last,
        [Message::user("question 2"), Message::assistant("answer 2")],
        "a turn that is too long keeps its question and its answer"
    );
    assert_eq!(
        fixture.store.history(&job, 102).unwrap().into_messages().len(),
        102,
        "a turn that fits is complete"
    );
}

#[test]
fn a_complete_turn_keeps_its_system_message() {
    let fixture = Fixture::new();
    let mut first = turn(1, ANN, "chat");
    first.spec.input.insert(0, Message::System { content: "be brief".to_owned() });
    fixture.submit([first, turn(2, ANN, "chat")]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    let job = fixture.store.job(ANN, id(2)).unwrap().unwrap();
    assert_eq!(fixture.store.history(&job, 3).unwrap().into_messages().len(), 3);
    assert_eq!(
        fixture.store.history(&job, 2).unwrap().into_messages(),
        [Message::user("question 1"), Message::assistant("x")]
    );
}

#[test]
fn p8_a_history_is_bounded_in_bytes() {
    let fixture = Fixture::with(&Limits { history_bytes: 25_000, ..Limits::default() });
    fixture.submit((1..=5).map(|n| turn(n, ANN, "chat")));
    for n in 1..=4 {
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), vec![], done(id(n), &"x".repeat(10_000))).wait().unwrap();
    }
    let job = |n| fixture.store.job(ANN, id(n)).unwrap().unwrap();
    assert_eq!(
        fixture.store.history(&job(5), 100).unwrap().into_messages().len(),
        4,
        "two turns of 10 kB fit into 25 kB"
    );
    assert_eq!(fixture.store.history(&job(2), 100).unwrap().into_messages().len(), 2);
}

#[test]
fn p8_a_full_queue_refuses_a_whole_submission_until_jobs_end() {
    let fixture = Fixture::with(&Limits { queue_jobs: 3, ..Limits::default() });
    fixture.submit([job(1, ANN), turn(2, ANN, "chat")]);
    let refused = fixture.store.submit(vec![job(3, ANN), job(4, ANN)]).wait();
    assert_eq!(refused, Err(SubmitError::QueueFull { limit: 3 }));
    assert_eq!(fixture.store.job(ANN, id(3)), Ok(None));
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    fixture.store.submit(vec![job(3, ANN), job(4, ANN)]).wait().unwrap();
    let full = fixture.crash_with(&Limits { queue_jobs: 3, ..Limits::default() });
    assert!(full.store.submit(vec![job(5, ANN)]).wait().is_err(), "the count survives a crash");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Compares with a model: priority, then the virtual time that the model computes, then acceptance.
    #[test]
    fn the_queue_order_is_priority_then_fairness_then_acceptance(
        jobs in proptest::collection::vec((1u32..4, 0u64..3), 1..40),
        claim_after in 0usize..40,
    ) {
        let fixture = Fixture::new();
        let (mut model, mut last, mut served) = (Vec::new(), std::collections::HashMap::new(), [0u64; 10]);
        let mut claimed = Vec::new();
        let mut expected = Vec::new();
        for (n, (user, priority)) in jobs.iter().enumerate() {
            if n == claim_after {
                model.sort_unstable();
                for (priority, fair, accept) in model.drain(..(n / 2)) {
                    served[usize::try_from(priority).unwrap()] = fair;
                    expected.push(id(accept));
                }
                claimed.extend(fixture.store.claim(n / 2).wait().unwrap().iter().map(|l| l.job.id));
            }
            let mut new = job(n as u128 + 1, UserId(*user));
            new.spec.priority = Priority::new(*priority).unwrap();
            fixture.submit([new]);
            let before = *last.get(&(*user, *priority)).unwrap_or(&0);
            let fair = served[usize::try_from(*priority).unwrap()].max(before) + 1;
            last.insert((*user, *priority), fair);
            model.push((*priority, fair, n as u128 + 1));
        }
        model.sort_unstable();
        expected.extend(model.into_iter().map(|(_, _, accept)| id(accept)));
        claimed.extend(fixture.claim_all());
        prop_assert_eq!(claimed, expected);
    }
}
