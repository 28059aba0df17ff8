//! Jobs that come after others, and jobs that end at a time: who waits, who is released by which end, and
//! what the wall clock may not do.

use super::batches::{batch, lines};
use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, done, id, job, name, turn};
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::job::{JobOutcome, JobStatus, Priority};
use nanoclaw::domain::job_conditions::{JobConditions, OnFailure};
use nanoclaw::domain::job_wait::{JobWait, JobWaitReason};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{CancelReason, NewJob, SubmitError};

const HOUR_MS: u64 = 3_600_000;

/// A job that comes after others.
fn after(new: NewJob, predecessors: &[u128]) -> NewJob {
    with(new, |conditions| conditions.after = predecessors.iter().map(|number| id(*number)).collect())
}

fn with(mut new: NewJob, change: impl FnOnce(&mut JobConditions)) -> NewJob {
    change(&mut new.spec.conditions);
    new
}

/// Ends jobs until none is due.
fn end_due(fixture: &Fixture) {
    for _ in 0..1_000 {
        if !fixture.store.end_due().wait().unwrap() {
            return;
        }
    }
    panic!("there is always one more");
}

fn failed() -> JobOutcome {
    let event = Event::Error { content: "broke".into(), code: FailureCode::Internal, retry_after_ms: None };
    JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None }
}

/// Status and failure code.
fn state(fixture: &Fixture, number: u128) -> (JobStatus, Option<FailureCode>) {
    let job = fixture.store.job(ANN, id(number)).unwrap().unwrap();
    assert_eq!(job.status.is_terminal(), job.finished_at_ms.is_some());
    (job.status, job.error.map(|error| error.code))
}

const QUEUED: (JobStatus, Option<FailureCode>) = (JobStatus::Queued, None);
const FAILED_DEPENDENCY: (JobStatus, Option<FailureCode>) =
    (JobStatus::Failed, Some(FailureCode::DependencyFailed));

fn finish(fixture: &Fixture, number: u128, outcome: JobOutcome) {
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(number));
    fixture.store.finish(lease.fence(), vec![], outcome).wait().unwrap();
}

#[test]
fn a_job_starts_when_the_last_of_its_predecessors_has_ended() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN), after(job(3, ANN), &[1, 2])]);
    let waits = fixture.store.job(ANN, id(3)).unwrap().unwrap().waits_for;
    assert_eq!(waits, Some(JobWait::after(Some(id(1)))));
    let leases = fixture.store.claim(10).wait().unwrap();
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(1), id(2)]);
    fixture.store.finish(leases[1].fence(), vec![], done(id(2), "two")).wait().unwrap();
    assert_eq!(fixture.claim_all(), [], "one of both has not ended");
    let waits = fixture.store.job(ANN, id(3)).unwrap().unwrap().waits_for;
    assert_eq!(waits.map(|wait| wait.reason), Some(JobWaitReason::Predecessor));
    let (ended, next) = fixture.store.finish_and_claim(leases[0].fence(), vec![], done(id(1), "one"));
    assert_eq!(ended, Ok(()));
    let next = next.unwrap_or_else(|| fixture.claim());
    assert_eq!(next.job.id, id(3));
    fixture.store.finish(next.fence(), vec![], done(id(3), "three")).wait().unwrap();
    assert_eq!(state(&fixture, 3), (JobStatus::Succeeded, None));
}

/// A store may write both in one transaction, in either order.
#[test]
fn a_job_that_is_submitted_as_its_predecessor_ends_is_released() {
    let fixture = Fixture::new();
    for first in (1..40).step_by(2) {
        fixture.submit([job(first, ANN)]);
        let lease = fixture.claim();
        let submit = || fixture.store.submit(vec![after(job(first + 1, ANN), &[first])]);
        let finish = || fixture.store.finish(lease.fence(), vec![], done(id(first), "one"));
        // The writer is busy with this one while the others arrive.
        let other = fixture.store.submit(vec![job(100 + first, BOB)]);
        let (submitted, ended) = if first % 4 == 1 {
            (submit(), finish())
        } else {
            let ended = finish();
            (submit(), ended)
        };
        other.wait().unwrap();
        submitted.wait().unwrap();
        ended.wait().unwrap();
        let ready: Vec<_> = fixture.claim_all();
        assert!(ready.contains(&id(first + 1)), "{first}");
    }
}

#[test]
fn p1_a_crash_between_the_end_and_the_start_releases_the_job_all_the_same() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1]), after(job(3, ANN), &[2])]);
    let fixture = fixture.crash();
    finish(&fixture, 1, done(id(1), "one"));
    let fixture = fixture.crash();
    finish(&fixture, 2, failed());
    let fixture = fixture.crash();
    end_due(&fixture);
    assert_eq!(state(&fixture, 3), FAILED_DEPENDENCY);
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn jobs_after_one_that_has_ended_start_at_once_or_fail_at_once() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    finish(&fixture, 1, done(id(1), "one"));
    finish(&fixture, 2, failed());
    let run = with(after(job(5, ANN), &[2]), |conditions| conditions.on_failure = OnFailure::Run);
    fixture.submit([after(job(3, ANN), &[1]), after(job(4, ANN), &[1, 2]), run]);
    end_due(&fixture);
    assert_eq!(state(&fixture, 4), FAILED_DEPENDENCY);
    assert_eq!(fixture.claim_all(), [id(3), id(5)]);
    let text = fixture.store.job(ANN, id(4)).unwrap().unwrap().error.unwrap().message;
    assert!(text.contains(&id(2).to_string()), "{text}");
}

#[test]
fn p4_a_failure_passes_down_a_chain_and_stops_where_a_job_runs_all_the_same() {
    let fixture = Fixture::new();
    let run = with(after(job(4, ANN), &[3]), |conditions| conditions.on_failure = OnFailure::Run);
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1]), after(job(3, ANN), &[2, 1]), run]);
    finish(&fixture, 1, failed());
    end_due(&fixture);
    for number in [2, 3] {
        assert_eq!(state(&fixture, number), FAILED_DEPENDENCY);
        let events = fixture.store.events(id(number), 0, 10).unwrap().events;
        assert_eq!(events.len(), 2, "queued, and one end: {events:?}");
    }
    assert_eq!(fixture.claim_all(), [id(4)]);
}

#[test]
fn every_kind_of_end_releases_those_that_wait() {
    let limits = Limits { crashes: 1, ..Limits::default() };
    let fixture = Fixture::with(&limits);
    let expiring = with(job(3, ANN), |conditions| conditions.expires_at_ms = Some(1_000_010));
    fixture.submit([job(1, ANN), turn(2, ANN, "chat"), expiring, job(4, ANN), job(5, ANN)]);
    for predecessor in 1..=5 {
        let run = |conditions: &mut JobConditions| conditions.on_failure = OnFailure::Run;
        fixture.submit([with(after(job(predecessor + 10, ANN), &[predecessor]), run)]);
    }
    fixture.store.cancel(ANN, id(1)).wait().unwrap();
    fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap();
    fixture.clock.advance(10);
    end_due(&fixture);
    assert_eq!(state(&fixture, 3), (JobStatus::Failed, Some(FailureCode::Expired)));
    let leases = fixture.store.claim(2).wait().unwrap();
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(4), id(5)]);
    fixture.store.cancel(ANN, id(4)).wait().unwrap();
    fixture.store.finish(leases[0].fence(), vec![], cancelled()).wait().unwrap();
    // One crash is one too many for the other.
    let fixture = fixture.crash_with(&limits);
    crate::support::wait_until("poison", || state(&fixture, 5).1 == Some(FailureCode::Poison));
    assert_eq!(fixture.claim_all(), [11, 12, 13, 14, 15].map(id));
}

#[test]
fn p7_a_predecessor_of_another_user_does_not_exist() {
    let fixture = Fixture::new();
    fixture.submit([job(1, BOB)]);
    for number in [1, 9] {
        let refused = fixture.store.submit(vec![after(job(2, ANN), &[number])]).wait().unwrap_err();
        assert_eq!(refused, SubmitError::NoPredecessor { job: id(number) });
    }
    let itself = fixture.store.submit(vec![after(job(2, ANN), &[2])]).wait().unwrap_err();
    assert_eq!(itself, SubmitError::NoPredecessor { job: id(2) }, "no job comes after itself");
    assert_eq!(fixture.store.job(ANN, id(2)), Ok(None));
}

#[test]
fn p8_the_jobs_that_wait_for_one_are_bounded() {
    let fixture = Fixture::with(&Limits { job_dependents: 2, ..Limits::default() });
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1]), after(job(3, ANN), &[1])]);
    let full = SubmitError::DependentsFull { job: id(1), limit: 2 };
    assert_eq!(fixture.store.submit(vec![after(job(4, ANN), &[1])]).wait(), Err(full));
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    fixture.submit([after(job(4, ANN), &[1])]);
    finish(&fixture, 1, done(id(1), "one"));
    fixture.submit([after(job(5, ANN), &[1])]);
    assert_eq!(fixture.claim_all(), [3, 4, 5].map(id));
}

#[test]
fn a_job_waits_for_its_predecessors_its_conversation_and_its_time() {
    let fixture = Fixture::new();
    let mut timed = after(turn(3, ANN, "chat"), &[1]);
    timed.spec.run_at_ms = Some(1_000_000 + HOUR_MS);
    fixture.submit([job(1, ANN), turn(2, ANN, "chat"), timed, turn(4, ANN, "chat")]);
    finish(&fixture, 1, done(id(1), "one"));
    finish(&fixture, 2, done(id(2), "two"));
    assert_eq!(fixture.claim_all(), [], "the third has its time, and the fourth is behind it");
    fixture.clock.advance(HOUR_MS);
    finish(&fixture, 3, done(id(3), "three"));
    finish(&fixture, 4, done(id(4), "four"));
}

#[test]
fn a_conversation_goes_on_when_a_job_that_holds_it_up_fails() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), after(turn(2, ANN, "chat"), &[1]), turn(3, ANN, "chat")]);
    assert_eq!(fixture.store.job(ANN, id(3)).unwrap().unwrap().waits_for, Some(JobWait::behind(Some(id(2)))));
    finish(&fixture, 1, failed());
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), FAILED_DEPENDENCY);
    assert_eq!(fixture.claim_all(), [id(3)]);
}

#[test]
fn a_released_job_takes_its_turn_by_priority() {
    let fixture = Fixture::new();
    let mut urgent = after(job(2, ANN), &[1]);
    urgent.spec.priority = Priority::new(0).unwrap();
    fixture.submit([job(1, ANN), urgent, job(3, ANN)]);
    finish(&fixture, 1, done(id(1), "one"));
    assert_eq!(fixture.claim_all(), [id(2), id(3)]);
}

#[test]
fn a_cancelled_job_waits_no_more_and_leaves_nothing_behind() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1])]);
    let ended = fixture.store.cancel(ANN, id(2)).wait().unwrap().unwrap();
    assert_eq!((ended.status, ended.waits_for), (JobStatus::Cancelled, None));
    finish(&fixture, 1, done(id(1), "one"));
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), (JobStatus::Cancelled, Some(FailureCode::Cancelled)));
    assert_eq!(fixture.claim_all(), []);
    assert_eq!(fixture.store.delete(ANN, id(1)).wait(), Ok(true));
}

#[test]
fn a_retry_makes_no_cycle_in_whatever_order_jobs_are_retried() {
    let fixture = Fixture::new();
    // Both are of one conversation: the retried predecessor stands behind the other there.
    let run = with(after(turn(2, ANN, "chat"), &[1]), |conditions| conditions.on_failure = OnFailure::Run);
    fixture.submit([turn(1, ANN, "chat"), run]);
    finish(&fixture, 1, failed());
    fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    finish(&fixture, 2, failed());
    finish(&fixture, 1, failed());
    fixture.store.retry(ANN, id(2)).wait().unwrap().unwrap();
    fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    finish(&fixture, 2, done(id(2), "two"));
    finish(&fixture, 1, done(id(1), "one"));
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn a_retried_job_waits_again_for_a_predecessor_that_runs_again() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1])]);
    finish(&fixture, 1, failed());
    end_due(&fixture);
    fixture.store.retry(ANN, id(2)).wait().unwrap().unwrap();
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), FAILED_DEPENDENCY, "the predecessor has still failed");
    fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    fixture.store.retry(ANN, id(2)).wait().unwrap().unwrap();
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), QUEUED);
    finish(&fixture, 1, done(id(1), "one"));
    finish(&fixture, 2, done(id(2), "two"));
}

#[test]
fn a_deleted_predecessor_has_ended() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), after(job(2, ANN), &[1])]);
    finish(&fixture, 1, failed());
    end_due(&fixture);
    assert_eq!(fixture.store.delete(ANN, id(1)).wait(), Ok(true));
    fixture.store.retry(ANN, id(2)).wait().unwrap().unwrap();
    end_due(&fixture);
    assert_eq!(fixture.claim_all(), [id(2)]);
    let refused = fixture.store.submit(vec![after(job(3, ANN), &[1])]).wait().unwrap_err();
    assert_eq!(refused, SubmitError::NoPredecessor { job: id(1) });
}

#[test]
fn a_line_of_a_batch_releases_those_that_wait_for_it() {
    let fixture = Fixture::new();
    fixture.store.fill((ANN, batch(1)), 0, lines(0, 1)).wait().unwrap();
    fixture.store.accept(super::batches::new(1, ANN, 1, 1), None).wait().unwrap();
    let line = fixture.claim();
    let mut waiting = job(2, ANN);
    waiting.spec.conditions.after = vec![line.job.id];
    waiting.spec.conditions.on_failure = OnFailure::Run;
    fixture.submit([waiting]);
    fixture.store.cancel_batch(ANN, batch(1)).wait().unwrap();
    fixture.store.finish(line.fence(), vec![], cancelled()).wait().unwrap();
    assert_eq!(fixture.claim_all(), [id(2)]);
}

#[test]
fn a_job_that_has_not_started_by_its_expiry_never_runs() {
    let fixture = Fixture::new();
    let expires = |number| with(job(number, ANN), |conditions| conditions.expires_at_ms = Some(1_000_100));
    fixture.submit([expires(1), expires(2), with(job(3, ANN), |c| c.expires_at_ms = Some(1_000_101))]);
    let lease = fixture.claim();
    fixture.clock.advance(99);
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), QUEUED);
    fixture.clock.advance(1);
    // A claim that is faster than the scheduler does not start it.
    assert_eq!(fixture.claim_all(), [id(3)]);
    end_due(&fixture);
    assert_eq!(state(&fixture, 2), (JobStatus::Failed, Some(FailureCode::Expired)));
    assert_eq!(lease.cancel.reason(), None, "the first has started in time");
    fixture.store.defer(lease.fence(), "busy".to_owned(), 10).wait().unwrap();
    fixture.clock.advance(10);
    end_due(&fixture);
    assert_eq!(fixture.claim_all(), [id(1)], "it goes on");
}

#[test]
fn a_deadline_ends_jobs_that_wait_for_whatever() {
    let fixture = Fixture::new();
    let deadline = |new| with(new, |conditions| conditions.deadline_ms = Some(1_000_000 + HOUR_MS));
    let mut timed = deadline(job(4, ANN));
    timed.spec.run_at_ms = Some(9_000_000_000);
    fixture.submit([deadline(job(1, ANN)), turn(2, ANN, "chat")]);
    let call = ToolCall { id_ref: "a".into(), name: "bash".into(), arguments: "{}".into() };
    fixture.store.wait_for_approval(fixture.claim().fence(), vec![call], 9 * HOUR_MS).wait().unwrap();
    let chatting = fixture.claim();
    fixture.submit([
        deadline(turn(3, ANN, "chat")),
        timed,
        deadline(after(job(5, ANN), &[2])),
        deadline(job(6, ANN)),
    ]);
    fixture.clock.advance(HOUR_MS);
    end_due(&fixture);
    for number in [1, 3, 4, 5, 6] {
        assert_eq!(
            state(&fixture, number),
            (JobStatus::Failed, Some(FailureCode::DeadlineExceeded)),
            "{number}"
        );
    }
    fixture.store.finish(chatting.fence(), vec![], done(id(2), "two")).wait().unwrap();
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn a_deadline_cancels_the_lease_of_a_running_job() {
    let fixture = Fixture::new();
    fixture.submit([with(job(1, ANN), |conditions| conditions.deadline_ms = Some(1_000_050))]);
    let lease = fixture.claim();
    end_due(&fixture);
    assert_eq!(lease.cancel.reason(), None);
    fixture.clock.advance(50);
    end_due(&fixture);
    assert_eq!(lease.cancel.reason(), Some(CancelReason::DeadlineExceeded));
    // Its worker dies before it has ended the job.
    let fixture = fixture.crash();
    fixture.clock.advance(10_000);
    crate::support::wait_until("the end", || {
        end_due(&fixture);
        state(&fixture, 1) == (JobStatus::Failed, Some(FailureCode::DeadlineExceeded))
    });
    assert_eq!(fixture.claim_all(), []);
}

#[test]
fn a_clock_that_jumps_ends_no_job_and_holds_no_failure_back() {
    let fixture = Fixture::new();
    let deadline = with(job(1, ANN), |conditions| conditions.deadline_ms = Some(1_000_000 + HOUR_MS));
    fixture.submit([deadline, job(2, ANN), after(job(3, ANN), &[2])]);
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    fixture.clock.jump(1_000 * HOUR_MS);
    end_due(&fixture);
    assert_eq!((state(&fixture, 1), state(&fixture, 3)), (QUEUED, FAILED_DEPENDENCY));
    assert_eq!(fixture.claim_all(), [id(1)], "it runs");
}

#[test]
fn a_retry_drops_the_times_that_have_passed() {
    let fixture = Fixture::new();
    fixture.submit([with(job(1, ANN), |conditions| {
        conditions.expires_at_ms = Some(1_000_010);
        conditions.deadline_ms = Some(1_000_500);
    })]);
    fixture.clock.advance(10);
    end_due(&fixture);
    let retried = fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    assert_eq!(
        (retried.conditions.expires_at_ms, retried.conditions.deadline_ms),
        (None, Some(1_000_500)),
        "the deadline is still to come"
    );
    end_due(&fixture);
    assert_eq!(state(&fixture, 1), QUEUED);
    fixture.clock.advance(490);
    end_due(&fixture);
    assert_eq!(state(&fixture, 1), (JobStatus::Failed, Some(FailureCode::DeadlineExceeded)));
    fixture.store.retry(ANN, id(1)).wait().unwrap().unwrap();
    end_due(&fixture);
    assert_eq!(fixture.claim_all(), [id(1)]);
}

#[test]
fn p8_a_long_chain_fails_in_bounded_transactions() {
    let fixture = Fixture::new();
    let chain = (2..=300).map(|number| after(job(number, ANN), &[number - 1]));
    fixture.submit(std::iter::once(job(1, ANN)).chain(chain));
    finish(&fixture, 1, failed());
    end_due(&fixture);
    assert_eq!(state(&fixture, 300), FAILED_DEPENDENCY);
    assert_eq!(fixture.store.unfinished_count(ANN, 10), Ok(0));
}

#[test]
fn a_job_in_memory_has_no_conditions() {
    let fixture = Fixture::file();
    let new = with(job(1, ANN), |conditions| conditions.deadline_ms = Some(u64::MAX));
    assert!(fixture.store.begin_in_memory(Box::new(new)).is_err());
}
