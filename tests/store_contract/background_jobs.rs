//! Jobs that a job's model asked for: they run beside their conversation, and what they say comes into it.

use super::fixture::Rig;
use super::messages::shown;
use crate::support::store::{ANN, BOB, done, id, job, name, turn};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::{ConversationSummary, Job, JobOrigin, JobOutcome, JobStatus};
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{
    BackgroundJobs, CancelReason, Conversations, Idempotent, JobQuery, NewJob, RegenerateRequest, Store,
    StoreError,
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

fn spawn(rig: &Rig, new: NewJob, most: u64) -> Result<Idempotent<Job>, StoreError> {
    let number = u8::try_from(u128::from_be_bytes(new.id.to_bytes())).unwrap();
    rig.store.spawn(new, key(number), most).wait()
}

fn history(rig: &Rig, number: u128) -> Vec<String> {
    let job = rig.store.job(ANN, id(number)).unwrap().unwrap();
    let history = rig.store.history(&job, 100).unwrap();
    history.turns.iter().flat_map(|turn| &turn.messages).map(text).collect()
}

fn text(message: &Message) -> String {
    match message {
        Message::User { content, .. } | Message::Assistant { content, .. } => content.clone(),
        other => panic!("{other:?}"),
    }
}

fn end(rig: &Rig, number: u128, ending: JobOutcome) {
    let lease = rig.claim();
    assert_eq!(lease.job.id, id(number));
    rig.store.finish(lease.fence(), vec![], ending).wait().unwrap();
}

fn plain(number: u128) -> JobOutcome {
    done(id(number), &format!("answer {number}"))
}

fn spawned(rig: &Rig, user: UserId) -> Vec<JobId> {
    rig.store.spawned(user).unwrap().iter().map(|job| job.id).collect()
}

#[test]
fn a_job_beside_its_conversation_neither_waits_nor_is_waited_for() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let parent = rig.claim();
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = rig.claim();
    assert_eq!(slow.job.id, id(2), "it runs while its parent does");
    assert!(rig.store.history(&slow.job, 100).unwrap().turns.is_empty());
    rig.store.finish(parent.fence(), vec![], plain(1)).wait().unwrap();
    rig.submit([turn(3, ANN, "chat")]);
    let next = rig.claim();
    assert_eq!(next.job.id, id(3), "the next one does not wait for it");
    assert_eq!(history(&rig, 3), ["question 1", "answer 1"], "what has not ended is not there");
    assert_eq!(
        shown(&rig.store, ANN, None, 9).0,
        ["?1", "!1", "?2", "!2", "?3", "!3"],
        "in order of acceptance"
    );
    rig.store.finish(slow.fence(), vec![], plain(2)).wait().unwrap();
    rig.store.finish(next.fence(), vec![], plain(3)).wait().unwrap();
    rig.submit([turn(4, ANN, "chat")]);
    let later = ["question 1", "answer 1", "question 2", "answer 2", "question 3", "answer 3"];
    assert_eq!(history(&rig, 4), later, "a later job knows what it said");
    assert!(spawned(&rig, ANN).is_empty());
}

#[test]
fn p1_it_is_there_after_a_crash_and_one_call_makes_one() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let _parent = rig.claim();
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    let rig = rig.crash();
    let again = rig.store.spawn(child(3, ANN, 1, "chat"), key(2), 8).wait().unwrap();
    assert!(matches!(again, Idempotent::Replayed(job) if job.id == id(2)), "the key names the first");
    assert_eq!(spawned(&rig, ANN), [id(2)]);
    let mut ready = rig.claim_all();
    ready.sort_unstable();
    assert_eq!(ready, [id(1), id(2)], "both are claimed anew, beside each other");
}

#[test]
fn p7_p8_users_have_as_many_as_the_bound_says_each() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat"), turn(2, BOB, "chat")]);
    for number in 3..=4 {
        spawn(&rig, child(number, ANN, 1, "chat"), 2).unwrap();
    }
    assert_eq!(spawn(&rig, child(5, ANN, 1, "chat"), 2), Err(StoreError::SpawnedFull { limit: 2 }));
    let again = rig.store.spawn(child(9, ANN, 1, "chat"), key(3), 2).wait().unwrap();
    assert!(matches!(again, Idempotent::Replayed(_)), "what is there already is told all the same");
    spawn(&rig, child(6, BOB, 2, "chat"), 2).unwrap();
    assert_eq!((spawned(&rig, ANN), spawned(&rig, BOB)), (vec![id(3), id(4)], vec![id(6)]));
    let cancelled = rig.store.cancel(ANN, id(3)).wait().unwrap().unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    spawn(&rig, child(7, ANN, 1, "chat"), 2).unwrap();
    assert!(rig.store.spec(BOB, id(1)).unwrap().is_none() && rig.store.spec(ANN, id(1)).unwrap().is_some());
    let gone = spawn(&rig, child(8, ANN, 1, "other"), 8);
    assert_eq!(gone, Err(StoreError::NoConversation), "it makes no conversation");
    let homeless = NewJob { in_existing: false, ..child(10, BOB, 2, "chat") };
    let spec = nanoclaw::domain::job::JobSpec { conversation_id: None, ..homeless.spec };
    spawn(&rig, NewJob { spec, ..homeless }, 8).unwrap();
    assert_eq!(spawned(&rig, BOB), [id(6), id(10)], "one without a conversation counts as well");
}

#[test]
fn children_are_listed_by_their_parent() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat"), job(2, ANN)]);
    for number in 3..=5 {
        spawn(&rig, child(number, ANN, 1, "chat"), 8).unwrap();
        rig.submit([job(number + 100, ANN)]);
    }
    let page = |user, before, limit| {
        let query = JobQuery { user, status: None, parent: Some(id(1)), before, limit };
        let page = rig.store.jobs(&query).unwrap();
        (page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = page(ANN, None, 2);
    assert_eq!(first, [id(5), id(4)]);
    assert_eq!(page(ANN, next, 2), (vec![id(3)], None));
    assert_eq!(page(BOB, None, 9), (vec![], None), "P7");
    rig.store.cancel(ANN, id(4)).wait().unwrap();
    let query =
        JobQuery { user: ANN, status: Some(JobStatus::Queued), parent: Some(id(1)), before: None, limit: 9 };
    assert_eq!(rig.store.jobs(&query).unwrap().jobs.len(), 2);
}

#[test]
fn a_summary_that_overtook_it_does_not_swallow_its_answer() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let parent = rig.claim();
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = rig.claim();
    rig.store.finish(parent.fence(), vec![], plain(1)).wait().unwrap();
    rig.submit([turn(3, ANN, "chat")]);
    end(&rig, 3, plain(3));
    rig.submit([turn(4, ANN, "chat")]);
    let summary = ConversationSummary { content: "one and three".to_owned(), through: 3 };
    end(&rig, 4, JobOutcome { summary: Some(summary), ..plain(4) });
    let count = rig.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count;
    rig.store.finish(slow.fence(), vec![], plain(2)).wait().unwrap();
    rig.submit([turn(5, ANN, "chat")]);
    assert_eq!(history(&rig, 5), ["question 4", "answer 4", "question 2", "answer 2"]);
    let (all, _) = shown(&rig.store, ANN, None, 20);
    assert_eq!(
        all,
        ["?1", "!1", "?3", "!3", "?4", "!4", "?2", "!2", "?5"],
        "at the end of what was said then"
    );
    let now = rig.store.conversation(ANN, &name("chat")).unwrap().unwrap().message_count;
    assert_eq!(now, count + 2, "its answer, and the new question");
    assert!(rig.store.delete(ANN, id(2)).wait().unwrap(), "nothing of it is left behind");
    let query = JobQuery { user: ANN, status: None, parent: None, before: None, limit: 20 };
    assert_eq!(rig.store.jobs(&query).unwrap().jobs.len(), 4);
}

#[test]
fn a_summary_that_overtook_it_does_not_swallow_what_a_cancelled_one_was_asked() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let parent = rig.claim();
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = rig.claim();
    rig.store.finish(parent.fence(), vec![], plain(1)).wait().unwrap();
    rig.submit([turn(3, ANN, "chat")]);
    let summary = ConversationSummary { content: "one".to_owned(), through: 2 };
    end(&rig, 3, JobOutcome { summary: Some(summary), ..plain(3) });
    // In the queue again when it is cancelled: its place there has the old number.
    rig.store.release(slow.fence()).wait().unwrap();
    let cancelled = rig.store.cancel(ANN, id(2)).wait().unwrap().unwrap();
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    rig.submit([turn(4, ANN, "chat")]);
    assert_eq!(history(&rig, 4), ["question 3", "answer 3", "question 2"]);
    assert!(rig.store.delete(ANN, id(2)).wait().unwrap(), "nothing of it is left behind");
}

#[test]
fn a_conversation_that_goes_stops_what_runs_beside_it() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat"), turn(9, ANN, "other")]);
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    spawn(&rig, child(3, ANN, 9, "other"), 8).unwrap();
    let leases = rig.store.claim(9).wait().unwrap();
    assert_eq!(leases.len(), 4);
    let ids = rig.store.unfinished(ANN, &name("chat")).unwrap();
    assert_eq!(ids, [id(2), id(1)], "newest first");
    assert!(rig.store.remove_conversation(ANN, name("chat")).wait().unwrap());
    let stopped = |number| {
        let lease = leases.iter().find(|lease| lease.job.id == id(number)).unwrap();
        lease.cancel.reason()
    };
    assert_eq!((stopped(2), stopped(3)), (Some(CancelReason::Cancelled), None));
}

#[test]
fn an_answer_is_given_anew_unless_a_later_job_beside_it_runs() {
    let rig = Rig::new();
    rig.submit([turn(1, ANN, "chat")]);
    let parent = rig.claim();
    spawn(&rig, child(2, ANN, 1, "chat"), 8).unwrap();
    let slow = rig.claim();
    rig.store.finish(parent.fence(), vec![], plain(1)).wait().unwrap();
    rig.submit([turn(3, ANN, "chat")]);
    end(&rig, 3, plain(3));
    let again = |answer: u128, number| RegenerateRequest {
        answer: id(answer).message_id(),
        job: turn(number, ANN, "chat"),
    };
    let refused = rig.store.regenerate(ANN, name("chat"), again(1, 10)).wait();
    assert!(matches!(refused, Err(StoreError::WrongState { .. })), "it would go with its parent's answer");
    assert!(rig.store.regenerate(ANN, name("chat"), again(3, 11)).wait().unwrap().is_some());
    rig.store.finish(slow.fence(), vec![], plain(2)).wait().unwrap();
    end(&rig, 11, plain(11));
    assert_eq!(shown(&rig.store, ANN, None, 9).0, ["?1", "!1", "?2", "!2", "?3", "!11"]);
}
