//! Jobs that wait for approval: decisions, timeout, cancel, crash, batches and removal of the conversation.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cost, done, id, job, turn};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::batch::BatchCounts;
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, Record, StatusPhase};
use nanoclaw::domain::id::{BatchId, JobId, UserId};
use nanoclaw::domain::job::{Job, JobOutcome, JobStatus, PendingApproval};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    DecidedJob, Idempotent, JobChangeError, JobQuery, LeaseError, NewBatch, NewLine, SubmitError, Urgency,
};

const TIMEOUT_MS: u64 = 60_000;

fn call(id_ref: &str) -> ToolCall {
    ToolCall { id_ref: id_ref.to_owned(), name: "bash".to_owned(), arguments: "{}".to_owned() }
}

/// Claims the next job and makes it wait for approval of the calls `a` and `b`.
fn ask(fixture: &Fixture) -> JobId {
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![cost(None, Usage::new(9, 1))], Urgency::Now).wait().unwrap();
    fixture.store.wait_for_approval(lease.fence(), vec![call("a"), call("b")], TIMEOUT_MS).wait().unwrap();
    let again = fixture.store.wait_for_approval(lease.fence(), vec![call("a")], TIMEOUT_MS).wait();
    assert_eq!(again, Err(LeaseError::Fenced { job: lease.job.id }));
    lease.job.id
}

/// Two jobs of a conversation; the first waits for approval.
fn waiting() -> Fixture {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, ANN, "chat")]);
    assert_eq!(ask(&fixture), id(1));
    fixture
}

fn decide(
    fixture: &Fixture,
    user: UserId,
    approve: bool,
    calls: &[&str],
) -> Result<Option<Job>, JobChangeError> {
    Ok(decide_calls(fixture, user, approve, calls)?.map(|decided| decided.job))
}

fn decide_calls(
    fixture: &Fixture,
    user: UserId,
    approve: bool,
    calls: &[&str],
) -> Result<Option<DecidedJob>, JobChangeError> {
    let id_refs = (!calls.is_empty()).then(|| strings(calls));
    let reason = (!approve).then(|| "no".to_owned());
    fixture.store.decide(user, id(1), ApprovalDecision { approve, id_refs, reason, is_lasting: false }).wait()
}

fn shown(fixture: &Fixture) -> Job {
    fixture.store.job(ANN, id(1)).unwrap().unwrap()
}

fn pending(job: &Job) -> Vec<String> {
    job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default()
}

/// The log from the approval request on.
fn since_asked(fixture: &Fixture) -> Vec<Record> {
    let log = fixture.store.log(id(1)).unwrap();
    let is_request = |record: &Record| matches!(record, Record::Mark(EngineMark::ApprovalAsked { .. }));
    let at = log.iter().position(is_request).unwrap();
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
fn a_lasting_approval_records_the_tools_of_the_approved_calls() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    let other = ToolCall { name: "file_edit".to_owned(), ..call("c") };
    let calls = vec![call("a"), call("b"), other];
    fixture.store.wait_for_approval(lease.fence(), calls, TIMEOUT_MS).wait().unwrap();
    let decide = |calls: Option<&[&str]>, approve| {
        let decision =
            ApprovalDecision { approve, id_refs: calls.map(strings), reason: None, is_lasting: true };
        fixture.store.decide(ANN, id(1), decision).wait().unwrap().unwrap().job
    };
    assert_eq!(pending(&decide(Some(&["a"]), true)), strings(&["b", "c"]), "the calls that wait still wait");
    decide(Some(&["b"]), false);
    decide(None, true);
    let marks = since_asked(&fixture.crash()).into_iter().filter_map(|record| match record {
        Record::Mark(EngineMark::Approved { id_refs, always }) => Some((id_refs, always)),
        _ => None,
    });
    let marks: Vec<_> = marks.collect();
    let approved = |call: &str, tool: &str| (strings(&[call]), strings(&[tool]));
    assert_eq!(marks, [approved("a", "bash"), approved("c", "file_edit")]);
}

#[test]
fn a_waiting_job_survives_crashes_and_blocks_its_conversation() {
    let fixture = waiting();
    let before = shown(&fixture);
    assert_eq!((before.status, pending(&before)), (JobStatus::Waiting, strings(&["a", "b"])));
    assert_eq!(before.approval.as_ref().unwrap().expires_at_ms, 1_000_000 + TIMEOUT_MS);
    assert_eq!(
        (before.attempt, before.crashes, before.failed_runs, before.usage),
        (0, 0, 0, Usage::new(9, 1))
    );
    assert_eq!(fixture.claim_all(), [], "neither the job nor a later job of its conversation runs");
    let fixture = fixture.crash().crash();
    assert_eq!(shown(&fixture), before, "a restart does not requeue the job and counts no crash");
    assert_eq!(fixture.claim_all(), []);
    assert_eq!(
        since_asked(&fixture),
        [EngineMark::ApprovalAsked { id_refs: strings(&["a", "b"]) }.into(), asks(&["a", "b"])]
    );
    let page = fixture.store.events(id(1), 0, 10).unwrap();
    assert!(
        page.events.iter().map(|event| event.seq).eq(1..=before.last_event_id),
        "marks have no sequence number"
    );
}

#[test]
fn a_waiting_job_is_listed_and_counted_but_cannot_be_deleted_or_retried() {
    let fixture = waiting();
    let of = |status| JobQuery { user: ANN, status, filter: JobFilter::NONE, before: None, limit: 10 };
    let ids =
        |status| fixture.store.jobs(&of(status)).unwrap().jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!((ids(Some(JobStatus::Waiting)), ids(Some(JobStatus::Running))), (vec![id(1)], vec![]));
    assert_eq!((ids(None), fixture.store.unfinished_count(ANN, 10)), (vec![id(2), id(1)], Ok(2)));
    let refused = JobChangeError::WrongState { status: JobStatus::Waiting };
    assert_eq!(fixture.store.delete(ANN, id(1)).wait(), Err(refused.clone()));
    assert_eq!(fixture.store.retry(ANN, id(1)).wait(), Err(refused));
    let full = Fixture::with(&Limits { queue_jobs: 1, ..Limits::default() });
    full.submit([job(1, ANN)]);
    ask(&full);
    assert_eq!(full.store.submit(vec![job(2, ANN)]).wait(), Err(SubmitError::QueueFull { limit: 1 }));
}

#[test]
fn approving_all_calls_queues_the_job_at_its_old_position() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN), job(3, ANN)]);
    ask(&fixture);
    let approved = decide(&fixture, ANN, true, &[]).unwrap().unwrap();
    assert_eq!((approved.status, &approved.approval), (JobStatus::Queued, &None));
    let end = [
        EngineMark::Approved { id_refs: strings(&["a", "b"]), always: Vec::new() }.into(),
        queued("the calls were approved"),
    ];
    assert_eq!(since_asked(&fixture)[2..], end);
    let fixture = fixture.crash();
    let lease = fixture.claim();
    let counted =
        (lease.job.id, lease.job.attempt, lease.job.failed_runs, lease.job.crashes, lease.job.epoch);
    assert_eq!(counted, (id(1), 1, 0, 0, 2), "the job precedes later jobs; the old lease is fenced");
    assert_eq!(fixture.claim_all(), [id(2), id(3)], "the job is queued once");
    fixture.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(fixture.claim_all(), [], "no approval timeout remains");
}

#[test]
fn calls_can_be_decided_one_by_one_and_the_last_decision_queues_the_job() {
    let fixture = waiting();
    let partly = decide(&fixture, ANN, false, &["b"]).unwrap().unwrap();
    assert_eq!((partly.status, pending(&partly)), (JobStatus::Waiting, strings(&["a"])));
    let fixture = fixture.crash();
    assert_eq!((shown(&fixture), fixture.claim_all()), (partly, vec![]));
    let queued_job = decide(&fixture, ANN, true, &["a"]).unwrap().unwrap();
    assert_eq!(queued_job.status, JobStatus::Queued);
    let expected = [
        EngineMark::Denied { id_refs: strings(&["b"]), reason: "no".to_owned() }.into(),
        asks(&["a"]),
        EngineMark::Approved { id_refs: strings(&["a"]), always: Vec::new() }.into(),
        queued("some of the calls were approved, the others denied"),
    ];
    assert_eq!(since_asked(&fixture)[2..], expected);
}

#[test]
fn a_repeated_decision_is_idempotent_and_a_conflicting_one_is_refused() {
    let fixture = waiting();
    decide(&fixture, ANN, false, &["b"]).unwrap();
    let log_length = fixture.store.log(id(1)).unwrap().len();
    assert_eq!(decide(&fixture, ANN, false, &["b"]).unwrap().unwrap().status, JobStatus::Waiting);
    let strange = |calls: &[&str], approve| decide(&fixture, ANN, approve, calls);
    let not_pending = |id_ref: &str| Err(JobChangeError::NotPending { id_ref: id_ref.to_owned() });
    assert_eq!(strange(&["b"], true), not_pending("b"), "the call was denied");
    assert_eq!(strange(&["a", "zzz"], true), not_pending("zzz"));
    assert_eq!(
        (fixture.store.log(id(1)).unwrap().len(), pending(&shown(&fixture))),
        (log_length, strings(&["a"]))
    );
    decide(&fixture, ANN, true, &["a"]).unwrap();
    let lease = fixture.claim();
    let wrong = |status| Err(JobChangeError::WrongState { status });
    let repeated = decide(&fixture, ANN, true, &["a"]).unwrap().unwrap();
    assert_eq!(repeated.status, JobStatus::Running, "a repeated decision returns the current state");
    assert_eq!(decide(&fixture, ANN, true, &[]), wrong(JobStatus::Running), "one of the calls was denied");
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert_eq!(decide(&fixture, ANN, true, &["a"]), wrong(JobStatus::Succeeded));
}

#[test]
fn a_decision_that_names_no_calls_is_about_the_first_request_only() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    ask(&fixture);
    let first = decide_calls(&fixture, ANN, true, &[]).unwrap().unwrap();
    assert_eq!((first.job.status, first.calls), (JobStatus::Queued, strings(&["a", "b"])));
    let again = decide_calls(&fixture, ANN, true, &[]).unwrap().unwrap();
    assert_eq!((again.job.status, again.calls), (JobStatus::Queued, strings(&["a", "b"])), "sent twice");
    let ask_again = |fixture: &Fixture, id_ref: &str| {
        let lease = fixture.claim();
        fixture.store.wait_for_approval(lease.fence(), vec![call(id_ref)], TIMEOUT_MS).wait().unwrap();
    };
    ask_again(&fixture, "c");
    let refused_for = |fixture: &Fixture, waiting: &[&str]| {
        let log = fixture.store.log(id(1)).unwrap();
        for approve in [true, false] {
            let unnamed = JobChangeError::UnnamedCalls { waiting: strings(waiting) };
            assert_eq!(decide(fixture, ANN, approve, &[]), Err(unnamed), "nobody has seen {waiting:?}");
        }
        assert_eq!(
            (fixture.store.log(id(1)).unwrap(), pending(&shown(fixture)), shown(fixture).status),
            (log, strings(waiting), JobStatus::Waiting)
        );
    };
    refused_for(&fixture, &["c"]);
    let late = decide_calls(&fixture, ANN, true, &["a"]).unwrap().unwrap();
    assert_eq!((pending(&late.job), late.calls), (strings(&["c"]), strings(&["a"])), "an answer was lost");
    let other_way = decide(&fixture, ANN, false, &["a"]);
    assert_eq!(other_way, Err(JobChangeError::NotPending { id_ref: "a".to_owned() }));
    let fixture = fixture.crash();
    refused_for(&fixture, &["c"]);
    let named = decide_calls(&fixture, ANN, true, &["c"]).unwrap().unwrap();
    assert_eq!((named.job.status, named.calls), (JobStatus::Queued, strings(&["c"])));
    let lease = fixture.claim();
    let failure = Event::Error { content: "x".into(), code: FailureCode::Timeout, retry_after_ms: None };
    let failed = JobOutcome { event: failure, ..done(id(1), "") };
    fixture.store.finish(lease.fence(), vec![], failed).wait().unwrap();
    fixture.store.retry(ANN, id(1)).wait().unwrap();
    ask_again(&fixture, "d");
    refused_for(&fixture, &["d"]);
}

#[test]
fn p7_only_the_owner_decides_and_only_for_a_waiting_job() {
    let fixture = waiting();
    let before = fixture.store.log(id(1)).unwrap();
    for calls in [&["a"][..], &[]] {
        assert_eq!(decide(&fixture, BOB, true, calls), Ok(None));
    }
    assert_eq!((fixture.store.log(id(1)).unwrap(), shown(&fixture).status), (before, JobStatus::Waiting));
    let idle = Fixture::new();
    idle.submit([job(1, ANN)]);
    assert_eq!(decide(&idle, ANN, true, &[]), Err(JobChangeError::WrongState { status: JobStatus::Queued }));
    assert_eq!(
        idle.store
            .decide(
                ANN,
                id(9),
                ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: false }
            )
            .wait(),
        Ok(None)
    );
}

#[test]
fn an_approval_timeout_denies_the_pending_calls_and_queues_the_job() {
    let fixture = waiting();
    decide(&fixture, ANN, true, &["a"]).unwrap();
    fixture.clock.advance(TIMEOUT_MS - 1);
    assert_eq!(fixture.claim_all(), []);
    let fixture = fixture.crash();
    fixture.clock.advance(1);
    let lease = fixture.claim();
    assert_eq!((lease.job.id, lease.job.attempt, &lease.job.approval), (id(1), 1, &None));
    let log = since_asked(&fixture);
    let [.., denied, queued_event, _running] = &log[..] else { panic!("{log:?}") };
    let Record::Mark(EngineMark::Denied { id_refs, reason }) = denied else { panic!("{denied:?}") };
    assert_eq!(*id_refs, strings(&["b"]));
    assert!(reason.starts_with("nobody decided within 60 s"), "{reason}");
    assert_eq!(*queued_event, queued("some of the calls were approved, the others denied"));
    assert_eq!(fixture.claim_all(), [], "one job of a conversation runs at a time");
}

#[test]
fn cancelling_a_waiting_job_ends_it_and_unblocks_its_conversation() {
    let fixture = waiting();
    let ended = fixture.store.cancel(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!((ended.status, &ended.approval, ended.usage), (JobStatus::Cancelled, &None, Usage::new(9, 1)));
    let last = fixture.store.events(id(1), 0, 100).unwrap().events.pop().unwrap().event;
    assert!(matches!(last, Event::Error { code: FailureCode::Cancelled, .. }), "P4");
    assert_eq!(
        decide(&fixture, ANN, true, &[]),
        Err(JobChangeError::WrongState { status: JobStatus::Cancelled })
    );
    assert_eq!(fixture.claim_all(), [id(2)]);
    fixture.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(
        (fixture.claim_all(), fixture.store.unfinished_count(ANN, 10)),
        (vec![], Ok(1)),
        "the job is in no queue"
    );
}

#[test]
fn p4_an_earlier_cancel_ends_the_job_instead_of_an_approval_wait() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    fixture.store.wait_for_approval(lease.fence(), vec![call("a")], TIMEOUT_MS).wait().unwrap();
    let row = shown(&fixture);
    assert_eq!((row.status, row.error.unwrap().code), (JobStatus::Cancelled, FailureCode::Cancelled));
    fixture.clock.advance(10 * TIMEOUT_MS);
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn waiting_for_approval_repeatedly_resets_the_crash_count() {
    let mut fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    for _ in 0..4 {
        fixture.claim();
        fixture = fixture.crash();
        ask(&fixture);
        assert_eq!(decide(&fixture, ANN, true, &["a", "b"]).unwrap().unwrap().crashes, 0);
    }
    let row = shown(&fixture);
    assert_eq!((row.status, row.failed_runs), (JobStatus::Queued, 0));
}

#[test]
fn a_batch_waits_for_the_approval_of_a_line() {
    let fixture = Fixture::new();
    let (batch, spec) = (BatchId::from_bits(1), job(1, ANN).spec);
    let line = |n: u32| NewLine { custom_id: n.to_string(), spec: spec.clone() };
    fixture.store.fill((ANN, batch), 0, vec![line(0), line(1)]).wait().unwrap();
    let created_at_ms = 1_000_000;
    let new = NewBatch {
        id: batch,
        user: ANN,
        created_at_ms,
        lines: 2,
        concurrency: 1,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    };
    assert!(matches!(fixture.store.accept(new, None).wait(), Ok(Idempotent::New(_))));
    let first = ask(&fixture);
    assert_eq!(fixture.claim_all(), [], "a waiting line still counts for the concurrency");
    let approve = ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: false };
    assert!(fixture.store.decide(ANN, first, approve).wait().unwrap().is_some());
    while let Some(lease) = fixture.store.claim(1).wait().unwrap().pop() {
        fixture.store.finish(lease.fence(), vec![], done(lease.job.id, "x")).wait().unwrap();
    }
    let counts = fixture.store.batch(ANN, batch).unwrap().unwrap().counts;
    assert_eq!(counts, BatchCounts { total: 2, completed: 2, failed: 0 });
    fixture.store.fill((ANN, BatchId::from_bits(2)), 0, vec![line(0)]).wait().unwrap();
    let new = NewBatch {
        id: BatchId::from_bits(2),
        user: ANN,
        created_at_ms,
        lines: 1,
        concurrency: 1,
        webhook_url: None,
        expires_at_ms: None,
        source: None,
    };
    assert!(matches!(fixture.store.accept(new, None).wait(), Ok(Idempotent::New(_))));
    let waits = ask(&fixture);
    fixture.store.cancel_batch(ANN, BatchId::from_bits(2)).wait().unwrap();
    assert_eq!(
        fixture.store.job(ANN, waits).unwrap().unwrap().status,
        JobStatus::Cancelled,
        "cancelling a batch cancels its waiting lines"
    );
}

#[test]
fn removing_a_conversation_cancels_its_waiting_job() {
    let fixture = waiting();
    let name = crate::support::store::name("chat");
    fixture.store.remove_conversation(ANN, name).wait().unwrap();
    assert_eq!(shown(&fixture).status, JobStatus::Cancelled);
}
