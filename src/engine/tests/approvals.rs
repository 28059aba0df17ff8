//! Calls that need approval: no call of a batch runs before a decision, and a crash loses no decision.

use super::fixture::{Fixture, LIMITS, answer_with_calls, answers, call, two_batches};
use super::store::Op;
use crate::domain::approval::{ApprovalDecision, denied_result};
use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{ApprovalMode, JobStatus};
use crate::domain::tool::ToolChoice;
use crate::engine::driver::DriveOutcome;
use crate::engine::turn::{INTERRUPTED, TurnState};
use crate::ports::{JobChangeError, Store, StoreError, UnexecutedReason};
use std::sync::Arc;

/// The standard plan, in which calls of `effect` need approval.
fn fixture_with_approval() -> Fixture {
    let fixture = Fixture::new(two_batches);
    fixture.tools.require_approval(&["effect"]);
    fixture
}

/// The ids of the calls that wait for approval.
fn pending(fixture: &Fixture) -> Vec<String> {
    let job = fixture.store.job(UserId::SINGLE, JobId::from_bits(7)).expect("readable").expect("there");
    job.approval.map(|pending| pending.id_refs()).unwrap_or_default()
}

fn decide(fixture: &Fixture, approve: bool, reason: &str) -> Result<(), JobChangeError> {
    let reason = Some(reason.to_owned());
    send(fixture, ApprovalDecision { approve, id_refs: None, reason, is_lasting: false })
}

fn approve_always(fixture: &Fixture) -> Result<(), JobChangeError> {
    send(fixture, ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: true })
}

fn send(fixture: &Fixture, decision: ApprovalDecision) -> Result<(), JobChangeError> {
    fixture.store.decide(UserId::SINGLE, JobId::from_bits(7), decision).wait().map(drop)
}

fn results(fixture: &Fixture) -> Vec<(String, String, bool)> {
    let result = |record: Record| match record {
        Record::Event(Event::ToolResult { id_ref, content, skipped, .. }) => Some((id_ref, content, skipped)),
        _ => None,
    };
    fixture.store.records().into_iter().filter_map(result).collect()
}

fn run_ids(fixture: &Fixture) -> Vec<String> {
    fixture.tools.runs().into_iter().map(|call| call.id_ref).collect()
}

fn success_result(id_ref: &str) -> (String, String, bool) {
    (id_ref.to_owned(), format!("ran {id_ref}"), false)
}

#[test]
fn no_call_of_a_batch_runs_before_the_approval() {
    let fixture = fixture_with_approval();
    assert_eq!(fixture.drive(), DriveOutcome::Postponed);
    assert_eq!(
        (fixture.status(), pending(&fixture), run_ids(&fixture)),
        (JobStatus::Waiting, vec!["b".to_owned()], vec![])
    );
    assert!(!fixture.store.is_ready(), "nobody claims it");
    decide(&fixture, true, "").expect("decided");
    assert_eq!(fixture.drive(), DriveOutcome::Postponed, "the second batch asks anew");
    assert_eq!((pending(&fixture), run_ids(&fixture).len()), (vec!["d".to_owned()], 3));
    decide(&fixture, true, "").expect("decided");
    fixture.finish();
    assert_eq!(results(&fixture), ["a", "b", "c", "d"].map(success_result));
    let reasons: Vec<String> = fixture.store.records().iter().filter_map(approval_text).collect();
    assert!(
        reasons.len() == 2 && reasons[0].starts_with("effect (b) waits for approval: POST /v1/jobs/job_"),
        "{reasons:?}"
    );
}

fn approval_text(record: &Record) -> Option<String> {
    match record {
        Record::Event(Event::WaitingApproval { reason, .. }) => Some(reason.clone()),
        _ => None,
    }
}

#[test]
fn a_denied_call_never_runs_and_the_model_gets_the_reason() {
    let fixture = fixture_with_approval();
    fixture.drive();
    decide(&fixture, false, "not on a \"Sunday\"").expect("decided");
    fixture.drive();
    let denied = ("b".to_owned(), denied_result("not on a \"Sunday\""), true);
    assert_eq!(results(&fixture), [success_result("a"), denied, success_result("c")]);
    assert!(!run_ids(&fixture).contains(&"b".to_owned()));
    assert_eq!(
        fixture.tools.settled(),
        [("b".to_owned(), UnexecutedReason::Denied)],
        "the audit log hears of it"
    );
    let requests = fixture.model.requests();
    let last_messages = format!("{:?}", requests.last().expect("asked again").1.messages);
    assert!(last_messages.contains("denied: not on a"), "{last_messages}");
}

#[test]
fn a_job_with_auto_deny_does_not_wait() {
    let mut fixture = fixture_with_approval();
    Arc::get_mut(&mut fixture.store)
        .expect("no other owner yet")
        .change_spec(|spec| spec.approval = ApprovalMode::AutoDeny);
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    assert_eq!(run_ids(&fixture), ["c", "a"]);
    let auto_denied: Vec<_> =
        results(&fixture).into_iter().filter(|(_, content, _)| content.contains("auto-deny")).collect();
    assert_eq!(auto_denied.len(), 2);
    let denied = fixture
        .store
        .records()
        .iter()
        .filter(|r| matches!(r, Record::Mark(EngineMark::Denied { .. })))
        .count();
    assert_eq!(denied, 2, "the log says who denied it: a restart with other rules changes nothing");
}

#[test]
fn no_approval_is_requested_for_refused_calls() {
    for tools in [ToolChoice::Named(vec!["pure".into()]), ToolChoice::All(false)] {
        let mut fixture = fixture_with_approval();
        Arc::get_mut(&mut fixture.store)
            .expect("no other owner yet")
            .change_spec(|spec| spec.tools = tools.clone());
        assert_eq!(fixture.drive(), DriveOutcome::Finished, "{tools:?}");
    }
    // An alias may stand for any tool.
    let mut fixture = Fixture::new(|request, _, sink| {
        answer_with_calls(if answers(request) == 0 { vec![call("a", "other_name")] } else { vec![] }, sink)
    });
    fixture.tools.require_approval(&["other_name"]);
    Arc::get_mut(&mut fixture.store)
        .expect("no other owner yet")
        .change_spec(|spec| spec.tools = ToolChoice::Named(vec!["effect".into()]));
    assert_eq!(fixture.drive(), DriveOutcome::Postponed);
}

#[test]
fn waiting_for_approval_uses_no_attempt_failure_or_job_time() {
    let fixture = fixture_with_approval();
    fixture.drive();
    fixture.clock.advance(100 * super::store::TIMEOUT_S * 1_000);
    decide(&fixture, true, "").expect("decided");
    fixture.drive();
    fixture.clock.advance(100 * super::store::TIMEOUT_S * 1_000);
    decide(&fixture, true, "").expect("decided");
    assert_eq!(fixture.drive(), DriveOutcome::Finished);
    let job = fixture.store.job(UserId::SINGLE, JobId::from_bits(7)).expect("readable").expect("there");
    assert_eq!((job.status, job.attempt, job.failed_runs, job.crashes), (JobStatus::Succeeded, 1, 0, 0));
}

#[test]
fn a_failed_approval_request_is_repeated() {
    let fixture = fixture_with_approval();
    fixture.store.fail_when(|op, nth| (op == Op::Release && nth == 1).then(|| StoreError::Io("no".into())));
    drop(fixture.tick());
    assert_eq!((pending(&fixture), run_ids(&fixture)), (vec![], vec![]));
    fixture.drive();
    assert_eq!(pending(&fixture), ["b"]);
}

/// Decides about all waiting calls. The store may fail here too.
fn decide_pending(fixture: &Fixture, approve: bool) {
    if fixture.status() == JobStatus::Waiting {
        drop(decide(fixture, approve, "no"));
    }
}

#[test]
fn p3_p4_a_crash_between_writes_loses_no_decision_and_repeats_no_effect() {
    let (mut interrupted, mut points) = (0, 0);
    for writes in 0.. {
        let fixture = fixture_with_approval();
        fixture.store.die_after(writes);
        // "b" is approved, "d" denied.
        for _ in 0..4 {
            drop(fixture.tick());
            decide_pending(&fixture, pending(&fixture) == ["b"]);
        }
        let died = fixture.store.terminal_events().is_empty();
        fixture.store.restart();
        for _ in 0..20 {
            if fixture.store.terminal_events().is_empty() {
                drop(fixture.tick());
                decide_pending(&fixture, pending(&fixture) == ["b"]);
            }
        }
        let case = format!("dead after {writes} writes");
        assert_eq!(fixture.status(), JobStatus::Succeeded, "{case}");
        assert_eq!(fixture.store.terminal_events().len(), 1, "{case}");
        let count = |id_ref: &str| run_ids(&fixture).iter().filter(|ran| *ran == id_ref).count();
        assert!(count("b") <= 1 && count("d") == 0, "{case}: {:?}", run_ids(&fixture));
        let all = results(&fixture);
        assert_eq!(
            all.iter().map(|(id_ref, ..)| id_ref.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c", "d"],
            "{case}"
        );
        assert!(all[1].1 == "ran b" || all[1].1 == INTERRUPTED, "{case}: {}", all[1].1);
        assert_eq!(all[3].1, denied_result("no"), "{case}");
        let is_interrupted = all[1].1 == INTERRUPTED;
        assert_eq!(
            fixture.tools.settled().contains(&("b".to_owned(), UnexecutedReason::Interrupted)),
            is_interrupted,
            "{case}"
        );
        assert!(fixture.tools.settled().contains(&("d".to_owned(), UnexecutedReason::Denied)), "{case}");
        interrupted += usize::from(is_interrupted);
        if !died {
            break;
        }
        points += 1;
    }
    assert!(points > 15, "the run was cut everywhere, not at {points} points");
    assert!(interrupted > 0, "some crash hit the approved effect");
}

#[test]
fn approval_marks_decide_nothing_and_the_wait_has_the_configured_limit() {
    let fixture = fixture_with_approval();
    fixture.drive();
    let job = fixture.store.job(UserId::SINGLE, JobId::from_bits(7)).expect("readable").expect("there");
    assert_eq!(job.approval.expect("waits").expires_at_ms, LIMITS.approval_timeout_ms);
    // The mark alone decides nothing: a retried job requests approval again.
    let log: Vec<Record> = fixture.store.records();
    let with_marks = TurnState::fold(&log);
    let without_marks: Vec<Record> =
        log.into_iter().filter(|r| !matches!(r, Record::Mark(EngineMark::ApprovalAsked { .. }))).collect();
    assert_eq!(with_marks, TurnState::fold(&without_marks));
}

#[test]
fn later_calls_of_a_tool_that_is_approved_always_are_made_without_asking() {
    let fixture = fixture_with_approval();
    fixture.drive();
    approve_always(&fixture).expect("decided");
    fixture.finish();
    assert_eq!(results(&fixture), ["a", "b", "c", "d"].map(success_result));
    let asked = fixture.store.records().iter().filter_map(approval_text).count();
    assert_eq!(asked, 1, "the second batch asks nobody");
}

#[test]
fn p3_p4_a_crash_loses_no_lasting_approval_and_repeats_no_effect() {
    let mut points = 0;
    for writes in 0.. {
        let fixture = fixture_with_approval();
        fixture.store.die_after(writes);
        let step = || {
            drop(fixture.tick());
            if fixture.status() == JobStatus::Waiting {
                drop(approve_always(&fixture));
            }
        };
        (0..4).for_each(|_| step());
        let died = fixture.store.terminal_events().is_empty();
        fixture.store.restart();
        for _ in 0..20 {
            if fixture.store.terminal_events().is_empty() {
                step();
            }
        }
        let case = format!("dead after {writes} writes");
        assert_eq!(fixture.status(), JobStatus::Succeeded, "{case}");
        for effect in ["b", "d"] {
            let count = run_ids(&fixture).iter().filter(|ran| *ran == effect).count();
            assert!(count <= 1, "{case}: {effect} ran {count} times");
        }
        let all = results(&fixture);
        assert_eq!(all.len(), 4, "{case}: {all:?}");
        for (id_ref, content, _) in all {
            assert!(content == format!("ran {id_ref}") || content == INTERRUPTED, "{case}: {content}");
        }
        let decided = |record: &Record| matches!(record, Record::Mark(EngineMark::Approved { .. }));
        assert_eq!(fixture.store.records().iter().filter(|record| decided(record)).count(), 1, "{case}");
        if !died {
            break;
        }
        points += 1;
    }
    assert!(points > 12, "the run was cut everywhere, not at {points} points");
}
