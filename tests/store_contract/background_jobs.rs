//! Background jobs, which a job's model starts: they run in parallel and answer in their conversation.

use super::fixture::Fixture;
use super::messages::shown;
use crate::support::store::{ANN, BOB, done, id, job, name, turn};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::{ConversationSummary, Job, JobOrigin, JobOutcome, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    CancelReason, ConversationError, Idempotent, JobQuery, NewJob, RegenerateRequest, SpawnError, SubmitError,
};

/// A child of a job, in a conversation.
fn child(number: u128, user: UserId, parent: u128, conversation: &str) -> NewJob {
    let mut new = turn(number, user, conversation);
    new.spec.origin = JobOrigin::Agent { parent: id(parent) };
    new.in_existing = true;
    new
}

fn key(number: u8) -> IdempotencyKey {
    IdempotencyKey { key: [number; 32], fingerprint: [number; 32] }
}

fn spawn(fixture: &Fixture, new: NewJob, limit: u64) -> Result<Idempotent<Job>, SpawnError> {
    let number = u8::try_from(u128::from_be_bytes(new.id.to_bytes())).unwrap();
    fixture.store.spawn(new, key(number), limit).wait()
}

fn history(fixture: &Fixture, number: u128) -> Vec<String> {
    let job = fixture.store.job(ANN, id(number)).unwrap().unwrap();
    let history = fixture.store.history(&job, 100).unwrap();
    history.turns.iter().flat_map(|turn| &turn.messages).map(text).collect()
}

fn text(message: &Message) -> String {
    match message {
        Message::User { content, .. } | Message::Assistant { content, .. } => content.clone(),
        other => panic!("{other:?}"),
    }
}

fn end(fixture: &Fixture, number: u128, ending: JobOutcome) {
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(number));
    fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
}

fn answered(number: u128) -> JobOutcome {
    done(id(number), &format!("answer {number}"))
}

fn spawned(fixture: &Fixture, user: UserId) -> Vec<JobId> {
    fixture.store.spawned(user).unwrap().iter().map(|job| job.id).collect()
}

#[test]
fn a_background_job_runs_in_parallel_with_its_conversation() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let parent = fixture.claim();
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = fixture.claim();
    assert_eq!(slow.job.id, id(2), "the background job runs in parallel with its parent");
    assert!(fixture.store.history(&slow.job, 100).unwrap().turns.is_empty());
    fixture.store.finish(parent.fence(), vec![], answered(1)).wait().unwrap();
    fixture.submit([turn(3, ANN, "chat")]);
    let next = fixture.claim();
    assert_eq!(next.job.id, id(3), "the next job does not wait for it");
    assert_eq!(history(&fixture, 3), ["question 1", "answer 1"], "an unfinished job is not in the history");
    assert_eq!(
        shown(&fixture.store, ANN, None, 9).0,
        ["?1", "!1", "?2", "!2", "?3", "!3"],
        "in order of acceptance"
    );
    fixture.store.finish(slow.fence(), vec![], answered(2)).wait().unwrap();
    fixture.store.finish(next.fence(), vec![], answered(3)).wait().unwrap();
    fixture.submit([turn(4, ANN, "chat")]);
    let later = ["question 1", "answer 1", "question 2", "answer 2", "question 3", "answer 3"];
    assert_eq!(history(&fixture, 4), later, "a later job sees its answer");
    assert!(spawned(&fixture, ANN).is_empty());
}

#[test]
fn p1_a_background_job_survives_a_crash_and_its_key_makes_only_one() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let _parent = fixture.claim();
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    let fixture = fixture.crash();
    let again = fixture.store.spawn(child(3, ANN, 1, "chat"), key(2), 8).wait().unwrap();
    assert!(matches!(again, Idempotent::Replayed(job) if job.id == id(2)), "the key returns the first job");
    assert_eq!(spawned(&fixture, ANN), [id(2)]);
    let mut ready = fixture.claim_all();
    ready.sort_unstable();
    assert_eq!(ready, [id(1), id(2)], "both are claimed again and run in parallel");
}

#[test]
fn p7_p8_background_jobs_are_limited_for_each_user() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(2, BOB, "chat")]);
    for number in 3..=4 {
        spawn(&fixture, child(number, ANN, 1, "chat"), 2).unwrap();
    }
    assert_eq!(spawn(&fixture, child(5, ANN, 1, "chat"), 2), Err(SpawnError::SpawnedFull { limit: 2 }));
    let again = fixture.store.spawn(child(9, ANN, 1, "chat"), key(3), 2).wait().unwrap();
    assert!(matches!(again, Idempotent::Replayed(_)), "a replay is answered even at the limit");
    spawn(&fixture, child(6, BOB, 2, "chat"), 2).unwrap();
    assert_eq!((spawned(&fixture, ANN), spawned(&fixture, BOB)), (vec![id(3), id(4)], vec![id(6)]));
    let cancelled = fixture.store.cancel(ANN, id(3)).wait().unwrap().unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    spawn(&fixture, child(7, ANN, 1, "chat"), 2).unwrap();
    assert!(
        fixture.store.spec(BOB, id(1)).unwrap().is_none()
            && fixture.store.spec(ANN, id(1)).unwrap().is_some()
    );
    let refused = spawn(&fixture, child(8, ANN, 1, "other"), 8);
    assert_eq!(refused, Err(SubmitError::NoConversation.into()), "a background job creates no conversation");
    let orphan = NewJob { in_existing: false, ..child(10, BOB, 2, "chat") };
    let spec = nanoclaw::domain::job::JobSpec { conversation_id: None, ..orphan.spec };
    spawn(&fixture, NewJob { spec, ..orphan }, 8).unwrap();
    assert_eq!(
        spawned(&fixture, BOB),
        [id(6), id(10)],
        "a background job without a conversation counts as well"
    );
}

#[test]
fn children_are_listed_by_their_parent() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), job(2, ANN)]);
    for number in 3..=5 {
        spawn(&fixture, child(number, ANN, 1, "chat"), 8).unwrap();
        fixture.submit([job(number + 100, ANN)]);
    }
    let page = |user, before, limit| {
        let query = JobQuery {
            user,
            status: None,
            filter: JobFilter { parent: Some(id(1)), ..JobFilter::NONE },
            before,
            limit,
        };
        let page = fixture.store.jobs(&query).unwrap();
        (page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = page(ANN, None, 2);
    assert_eq!(first, [id(5), id(4)]);
    assert_eq!(page(ANN, next, 2), (vec![id(3)], None));
    assert_eq!(page(BOB, None, 9), (vec![], None), "P7");
    fixture.store.cancel(ANN, id(4)).wait().unwrap();
    let query = JobQuery {
        user: ANN,
        status: Some(JobStatus::Queued),
        filter: JobFilter { parent: Some(id(1)), ..JobFilter::NONE },
        before: None,
        limit: 9,
    };
    assert_eq!(fixture.store.jobs(&query).unwrap().jobs.len(), 2);
}

#[test]
fn a_summary_made_meanwhile_does_not_hide_the_answer_of_a_background_job() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let parent = fixture.claim();
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = fixture.claim();
    fixture.store.finish(parent.fence(), vec![], answered(1)).wait().unwrap();
    fixture.submit([turn(3, ANN, "chat")]);
    end(&fixture, 3, answered(3));
    fixture.submit([turn(4, ANN, "chat")]);
    let summary = ConversationSummary { content: "one and three".to_owned(), through: 3 };
    end(&fixture, 4, JobOutcome { summary: Some(summary), ..answered(4) });
    let count = fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count;
    fixture.store.finish(slow.fence(), vec![], answered(2)).wait().unwrap();
    fixture.submit([turn(5, ANN, "chat")]);
    assert_eq!(history(&fixture, 5), ["question 4", "answer 4", "question 2", "answer 2"]);
    let (all, _) = shown(&fixture.store, ANN, None, 20);
    assert_eq!(all, ["?1", "!1", "?3", "!3", "?4", "!4", "?2", "!2", "?5"], "the late answer comes last");
    let now = fixture.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count;
    assert_eq!(now, count + 2, "the late answer and the new question");
    assert!(fixture.store.delete(ANN, id(2)).wait().unwrap(), "the job and its messages are deleted");
    let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before: None, limit: 20 };
    assert_eq!(fixture.store.jobs(&query).unwrap().jobs.len(), 4);
}

#[test]
fn a_summary_made_meanwhile_does_not_hide_a_cancelled_background_question() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let parent = fixture.claim();
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = fixture.claim();
    fixture.store.finish(parent.fence(), vec![], answered(1)).wait().unwrap();
    fixture.submit([turn(3, ANN, "chat")]);
    let summary = ConversationSummary { content: "one".to_owned(), through: 2 };
    end(&fixture, 3, JobOutcome { summary: Some(summary), ..answered(3) });
    // The job is cancelled while it is queued again with its old number.
    fixture.store.release(slow.fence()).wait().unwrap();
    let cancelled = fixture.store.cancel(ANN, id(2)).wait().unwrap().unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    fixture.submit([turn(4, ANN, "chat")]);
    assert_eq!(history(&fixture, 4), ["question 3", "answer 3", "question 2"]);
    assert!(fixture.store.delete(ANN, id(2)).wait().unwrap(), "the job and its messages are deleted");
}

#[test]
fn removing_a_conversation_cancels_its_background_jobs() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat"), turn(9, ANN, "other")]);
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    spawn(&fixture, child(3, ANN, 9, "other"), 8).unwrap();
    let leases = fixture.store.claim(9).wait().unwrap();
    assert_eq!(leases.len(), 4);
    let ids = fixture.store.unfinished(ANN, &name("chat")).unwrap();
    assert_eq!(ids, [id(2), id(1)], "newest first");
    assert!(fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap());
    let stopped = |number| {
        let lease = leases.iter().find(|lease| lease.job.id == id(number)).unwrap();
        lease.cancel.reason()
    };
    assert_eq!((stopped(2), stopped(3)), (Some(CancelReason::Cancelled), None));
}

#[test]
fn regenerate_is_refused_while_a_later_background_job_runs() {
    let fixture = Fixture::new();
    fixture.submit([turn(1, ANN, "chat")]);
    let parent = fixture.claim();
    spawn(&fixture, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = fixture.claim();
    fixture.store.finish(parent.fence(), vec![], answered(1)).wait().unwrap();
    fixture.submit([turn(3, ANN, "chat")]);
    end(&fixture, 3, answered(3));
    let again = |answer: u128, number| RegenerateRequest {
        answer: id(answer).message_id(),
        job: turn(number, ANN, "chat"),
        replaces_question: false,
        key: None,
    };
    let refused = fixture.store.regenerate(ANN, name("chat"), again(1, 10)).wait();
    assert!(
        matches!(refused, Err(ConversationError::WrongState { .. })),
        "regenerating the parent's answer would remove the background job"
    );
    assert!(fixture.store.regenerate(ANN, name("chat"), again(3, 11)).wait().unwrap().is_some());
    fixture.store.finish(slow.fence(), vec![], answered(2)).wait().unwrap();
    end(&fixture, 11, answered(11));
    assert_eq!(shown(&fixture.store, ANN, None, 9).0, ["?1", "!1", "?2", "!2", "?3", "!11"]);
}
