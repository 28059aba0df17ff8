//! Jobs that wait for somebody's approval: every way in and out of the wait.

use super::fixture::Rig;
use crate::support::store::{ANN, BOB, cost, done, id, job, turn};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::batch::BatchCounts;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record, StatusPhase};
use nanoclaw::domain::id::{BatchId, JobId, UserId};
use nanoclaw::domain::job::{Job, JobStatus, PendingApproval};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    Batches, Conversations, Idempotent, JobQuery, NewBatch, NewLine, Store, StoreError, Urgency,
};

const TIMEOUT_MS: u64 = 60_000;

fn call(id_ref: &str) -> ToolCall {
    ToolCall { id_ref: id_ref.to_owned(), name: "bash".to_owned(), arguments: "{}".to_owned() }
}

/// Claims the next job and lets it wait for `a` and `b`.
fn ask(rig: &Rig) -> JobId {
    let lease = rig.claim();
    rig.store.append(lease.fence(), vec![cost(None, Usage::new(9, 1))], Urgency::Now).wait().unwrap();
    rig.store.wait_for_approval(lease.fence(), vec![call("a"), call("b")], TIMEOUT_MS).wait().unwrap();
    let again = rig.store.wait_for_approval(lease.fence(), vec![call("a")], TIMEOUT_MS).wait();
    assert_eq!(again, Err(StoreError::Fenced { job: lease.job.id }));
    lease.job.id
}

/// Two jobs of a conversation, of which the first waits.
fn waiting() -> Rig {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    assert_eq!(ask(&rig), id(1));
    rig
}

fn decide(rig: &Rig, user: UserId, approve: bool, calls: &[&str]) -> Result<Option<Job>, StoreError> {
    let id_refs = (!calls.is_empty()).then(|| calls.iter().map(|id_ref| (*id_ref).to_owned()).collect());
    let reason = (!approve).then(|| "no".to_owned());
    rig.store.decide(user, id(1), ApprovalDecision { approve, id_refs, reason }).wait()
}

fn shown(rig: &Rig) -> Job {
    rig.store.job(ANN, id(1)).unwrap().unwrap()
}

fn pending(job: &Job) -> Vec<String> {
    job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default()
}

/// The end of the log, from the question on.
fn since_asked(rig: &Rig) -> Vec<Record> {
    let log = rig.store.log(id(1)).unwrap();
    let asked = |record: &Record| matches!(record, Record::Mark(EngineMark::ApprovalAsked { .. }));
    let at = log.iter().position(asked).unwrap();
    log[at..].to_vec()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn asks(calls: &[&str]) -> Record {
    let named: Vec<String> = calls.iter().map(|id_ref| format!("bash ({id_ref})")).collect();
    let waits = if calls.len() == 1 { "waits" } else { "wait" };
    let job = id(1);
    let reason = format!(
        "{} {waits} for approval: POST /v1/jobs/{job}/approve or /v1/jobs/{job}/deny",
        named.join(", ")
    );
    Event::WaitingApproval { attempt: 0, reason, calls: strings(calls) }.into()
}

fn queued(reason: &str) -> Record {
    Event::Status { status: StatusPhase::Queued, attempt: 0, reason: Some(reason.to_owned()) }.into()
}

#[test]
fn a_job_waits_through_crashes_and_its_conversation_waits_behind_it() {
    let rig = waiting();
    let before = shown(&rig);
    assert_eq!((before.status, pending(&before)), (JobStatus::Waiting, strings(&["a", "b"])));
    assert_eq!(before.approval.as_ref().unwrap().expires_at_ms, 1_000_000 + TIMEOUT_MS);
    assert_eq!(
        (before.attempt, before.crashes, before.failed_runs, before.usage),
        (0, 0, 0, Usage::new(9, 1))
    );
    assert_eq!(rig.claim_all(), [], "nothing runs, nor does its conversation overtake it");
    let rig = rig.crash().crash();
    assert_eq!(shown(&rig), before, "a start does not requeue it, and counts no crash");
    assert_eq!(rig.claim_all(), []);
    assert_eq!(
        since_asked(&rig),
        [EngineMark::ApprovalAsked { id_refs: strings(&["a", "b"]) }.into(), asks(&["a", "b"])]
    );
    let page = rig.store.events(id(1), 0, 10).unwrap();
    assert!(page.events.iter().map(|event| event.seq).eq(1..=before.last_event_id), "marks have no number");
}

#[test]
fn it_is_listed_counted_and_neither_deleted_nor_retried() {
    let rig = waiting();
    let of = |status| JobQuery { user: ANN, status, parent: None, before: None, limit: 10 };
    let ids = |status| rig.store.jobs(&of(status)).unwrap().jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!((ids(Some(JobStatus::Waiting)), ids(Some(JobStatus::Running))), (vec![id(1)], vec![]));
    assert_eq!((ids(None), rig.store.unfinished_count(ANN, 10)), (vec![id(2), id(1)], Ok(2)));
    let refused = StoreError::WrongState { status: JobStatus::Waiting };
    assert_eq!(rig.store.delete(ANN, id(1)).wait(), Err(refused.clone()));
    assert_eq!(rig.store.retry(ANN, id(1)).wait(), Err(refused));
    let full = Rig::with(&Limits { queue_jobs: 1, ..Limits::default() });
    full.submit([job(1, ANN)]);
    ask(&full);
    assert_eq!(full.store.submit(vec![job(2, ANN)]).wait(), Err(StoreError::QueueFull { limit: 1 }));
}

#[test]
fn an_approval_of_all_queues_it_at_once_at_its_place() {
    let rig = Rig::new();
    rig.submit([job(1, ANN), job(2, ANN), job(3, ANN)]);
    ask(&rig);
    let approved = decide(&rig, ANN, true, &[]).unwrap().unwrap();
    assert_eq!((approved.status, &approved.approval), (JobStatus::Queued, &None));
    let end =
        [EngineMark::Approved { id_refs: strings(&["a", "b"]) }.into(), queued("the calls were approved")];
    assert_eq!(since_asked(&rig)[2..], end);
    let rig = rig.crash();
    let lease = rig.claim();
    let counted =
        (lease.job.id, lease.job.attempt, lease.job.failed_runs, lease.job.crashes, lease.job.epoch);
    assert_eq!(counted, (id(1), 1, 0, 0, 2), "before those that came after it; the old lease is fenced");
    assert_eq!(rig.claim_all(), [id(2), id(3)], "it stands in one place only");
    rig.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(rig.claim_all(), [], "no time is left to pass");
}

#[test]
fn calls_are_decided_one_by_one_and_the_job_waits_for_the_last() {
    let rig = waiting();
    let partly = decide(&rig, ANN, false, &["b"]).unwrap().unwrap();
    assert_eq!((partly.status, pending(&partly)), (JobStatus::Waiting, strings(&["a"])));
    let rig = rig.crash();
    assert_eq!((shown(&rig), rig.claim_all()), (partly, vec![]));
    let whole = decide(&rig, ANN, true, &["a"]).unwrap().unwrap();
    assert_eq!(whole.status, JobStatus::Queued);
    let said = [
        EngineMark::Denied { id_refs: strings(&["b"]), reason: "no".to_owned() }.into(),
        asks(&["a"]),
        EngineMark::Approved { id_refs: strings(&["a"]) }.into(),
        queued("some of the calls were approved, the others denied"),
    ];
    assert_eq!(since_asked(&rig)[2..], said);
}

#[test]
fn the_same_word_twice_is_one_and_another_is_refused() {
    let rig = waiting();
    decide(&rig, ANN, false, &["b"]).unwrap();
    let told = rig.store.log(id(1)).unwrap().len();
    assert_eq!(decide(&rig, ANN, false, &["b"]).unwrap().unwrap().status, JobStatus::Waiting);
    let strange = |calls: &[&str], approve| decide(&rig, ANN, approve, calls);
    let not_pending = |id_ref: &str| Err(StoreError::NotPending { id_ref: id_ref.to_owned() });
    assert_eq!(strange(&["b"], true), not_pending("b"), "it was denied");
    assert_eq!(strange(&["a", "zzz"], true), not_pending("zzz"));
    assert_eq!((rig.store.log(id(1)).unwrap().len(), pending(&shown(&rig))), (told, strings(&["a"])));
    decide(&rig, ANN, true, &["a"]).unwrap();
    let lease = rig.claim();
    let wrong = |status| Err(StoreError::WrongState { status });
    let repeated = decide(&rig, ANN, true, &["a"]).unwrap().unwrap();
    assert_eq!(repeated.status, JobStatus::Running, "as it then stands");
    assert_eq!(decide(&rig, ANN, true, &[]), wrong(JobStatus::Running), "one of them was denied");
    rig.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert_eq!(decide(&rig, ANN, true, &["a"]), wrong(JobStatus::Succeeded));
}

#[test]
fn p7_nobody_decides_about_anothers_job_and_none_that_does_not_wait() {
    let rig = waiting();
    let before = rig.store.log(id(1)).unwrap();
    for calls in [&["a"][..], &[]] {
        assert_eq!(decide(&rig, BOB, true, calls), Ok(None));
    }
    assert_eq!((rig.store.log(id(1)).unwrap(), shown(&rig).status), (before, JobStatus::Waiting));
    let idle = Rig::new();
    idle.submit([job(1, ANN)]);
    assert_eq!(decide(&idle, ANN, true, &[]), Err(StoreError::WrongState { status: JobStatus::Queued }));
    assert_eq!(
        idle.store.decide(ANN, id(9), ApprovalDecision { approve: true, id_refs: None, reason: None }).wait(),
        Ok(None)
    );
}

#[test]
fn nobody_decides_in_time_what_is_left_is_denied_and_the_job_goes_on() {
    let rig = waiting();
    decide(&rig, ANN, true, &["a"]).unwrap();
    rig.clock.advance(TIMEOUT_MS - 1);
    assert_eq!(rig.claim_all(), []);
    let rig = rig.crash();
    rig.clock.advance(1);
    let lease = rig.claim();
    assert_eq!((lease.job.id, lease.job.attempt, &lease.job.approval), (id(1), 1, &None));
    let log = since_asked(&rig);
    let [.., denied, told, _running] = &log[..] else { panic!("{log:?}") };
    let Record::Mark(EngineMark::Denied { id_refs, reason }) = denied else { panic!("{denied:?}") };
    assert_eq!(*id_refs, strings(&["b"]));
    assert!(reason.starts_with("nobody decided within 60 s"), "{reason}");
    assert_eq!(*told, queued("some of the calls were approved, the others denied"));
    assert_eq!(rig.claim_all(), [], "one of a conversation at a time");
}

#[test]
fn a_waiting_job_is_cancelled_at_once_and_its_conversation_goes_on() {
    let rig = waiting();
    let ended = rig.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((ended.status, &ended.approval, ended.usage), (JobStatus::Cancelled, &None, Usage::new(9, 1)));
    let last = rig.store.events(id(1), 0, 100).unwrap().events.pop().unwrap().event;
    assert!(matches!(last, Event::Error { code: FailureCode::Cancelled, .. }), "P4");
    assert_eq!(decide(&rig, ANN, true, &[]), Err(StoreError::WrongState { status: JobStatus::Cancelled }));
    assert_eq!(rig.claim_all(), [id(2)]);
    rig.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(
        (rig.claim_all(), rig.store.unfinished_count(ANN, 10)),
        (vec![], Ok(1)),
        "it has left every queue"
    );
}

#[test]
fn p4_a_cancellation_that_came_first_ends_it_instead() {
    let rig = Rig::new();
    rig.submit([job(1, ANN)]);
    let lease = rig.claim();
    rig.store.cancel(ANN, id(1)).wait().unwrap();
    rig.store.wait_for_approval(lease.fence(), vec![call("a")], TIMEOUT_MS).wait().unwrap();
    let row = shown(&rig);
    assert_eq!((row.status, row.error.unwrap().code), (JobStatus::Cancelled, FailureCode::Cancelled));
    rig.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(rig.claim_all(), []);
}

#[test]
fn a_job_may_wait_time_and_again_and_becomes_no_poison() {
    let mut rig = Rig::new();
    rig.submit([job(1, ANN)]);
    for _ in 0..4 {
        rig.claim();
        rig = rig.crash();
        ask(&rig);
        assert_eq!(decide(&rig, ANN, true, &[]).unwrap().unwrap().crashes, 0);
    }
    let row = shown(&rig);
    assert_eq!((row.status, row.failed_runs), (JobStatus::Queued, 0));
}

#[test]
fn a_line_of_a_batch_waits_and_the_batch_with_it() {
    let rig = Rig::new();
    let (batch, spec) = (BatchId::from_bits(1), job(1, ANN).spec);
    let line = |n: u32| NewLine { custom_id: n.to_string(), spec: spec.clone() };
    rig.store.fill(batch, 0, vec![line(0), line(1)]).wait().unwrap();
    let created_at_ms = 1_000_000;
    let new = NewBatch { id: batch, user: ANN, created_at_ms, lines: 2, concurrency: 1, webhook_url: None };
    assert!(matches!(rig.store.accept(new, None).wait(), Ok(Idempotent::New(_))));
    let first = ask(&rig);
    assert_eq!(rig.claim_all(), [], "it keeps its place among those that run at once");
    let approve = ApprovalDecision { approve: true, id_refs: None, reason: None };
    assert!(rig.store.decide(ANN, first, approve).wait().unwrap().is_some());
    while let Some(lease) = rig.store.claim(1).wait().unwrap().pop() {
        rig.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    }
    let counts = rig.store.batch(ANN, batch).unwrap().unwrap().counts;
    assert_eq!(counts, BatchCounts { total: 2, completed: 2, failed: 0 });
    rig.store.fill(BatchId::from_bits(2), 0, vec![line(0)]).wait().unwrap();
    let new = NewBatch {
        id: BatchId::from_bits(2),
        user: ANN,
        created_at_ms,
        lines: 1,
        concurrency: 1,
        webhook_url: None,
    };
    assert!(matches!(rig.store.accept(new, None).wait(), Ok(Idempotent::New(_))));
    let waits = ask(&rig);
    rig.store.cancel_batch(ANN, BatchId::from_bits(2)).wait().unwrap();
    assert_eq!(
        rig.store.job(ANN, waits).unwrap().unwrap().status,
        JobStatus::Cancelled,
        "a cancelled batch waits for nobody"
    );
}

#[test]
fn a_removed_conversation_takes_its_waiting_job_along() {
    let rig = waiting();
    let name = crate::support::store::name("chat");
    rig.store.remove_conversation(ANN, name).wait().unwrap();
    assert_eq!(shown(&rig).status, JobStatus::Cancelled);
}
