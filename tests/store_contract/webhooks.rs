//! Webhook deliveries: created with the job's end, pending until settled, listed for their owner.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, done, id, job};
use nanoclaw::domain::delivery_turns::DeliveryTurns;
use nanoclaw::domain::event::FailureCode;
use nanoclaw::domain::id::{DeliveryId, UserId};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::webhook::{
    AfterAttempt, Delivery, DeliveryAttempt, DeliveryState, WebhookSubject, WebhookUrl,
};
use nanoclaw::ports::{Clock, DeliveryQuery, Fence, NewJob};
use std::collections::BTreeSet;

const DAY_MS: u64 = 24 * 3_600 * 1_000;

fn hooked(number: u128, user: UserId, host: &str) -> NewJob {
    let mut new = job(number, user);
    new.spec.webhook_url = Some(WebhookUrl::try_from(format!("https://{host}/hook")).unwrap());
    new
}

fn due(fixture: &Fixture) -> Vec<Delivery> {
    fixture.store.due(fixture.clock.now_ms(), 100, &DeliveryTurns::default()).unwrap()
}

fn all(fixture: &Fixture, user: UserId, state: Option<DeliveryState>) -> Vec<Delivery> {
    fixture.store.deliveries(&DeliveryQuery { user, state, before: None, limit: 100 }).unwrap().deliveries
}

/// Runs a job to its end.
fn run(fixture: &Fixture, new: NewJob) {
    let number = new.id;
    fixture.submit([new]);
    let lease = fixture.claim();
    let fence = Fence { job: lease.job.id, epoch: lease.job.epoch };
    fixture.store.finish(fence, Vec::new(), done(number, "yes")).wait().unwrap();
}

fn attempt(next: AfterAttempt) -> DeliveryAttempt {
    DeliveryAttempt { status: Some(500), error: Some("the receiver answered 500".to_owned()), next }
}

#[test]
fn p1_p4_a_job_end_and_its_webhook_delivery_are_one_transaction() {
    let fixture = Fixture::new();
    fixture.submit([hooked(1, ANN, "a.test"), job(2, ANN)]);
    // In a database the node that crashed has lost its jobs to the one that goes on.
    let fixture = fixture.crash();
    assert_eq!(fixture.store.next_due_ms().unwrap(), None, "nothing has ended");
    for number in [1, 2] {
        let lease = fixture.claim();
        let fence = Fence { job: lease.job.id, epoch: lease.job.epoch };
        fixture.store.finish(fence, Vec::new(), done(id(number), "yes")).wait().unwrap();
    }
    let after = fixture.crash();
    let found = due(&after);
    assert_eq!(found.len(), 1, "only one job has a webhook");
    assert_eq!((found[0].subject, found[0].user), (WebhookSubject::Job(id(1)), ANN));
    assert_eq!((found[0].state, found[0].tries), (DeliveryState::Pending, 0));
    assert_eq!(after.store.job(ANN, id(1)).unwrap().unwrap().status, JobStatus::Succeeded);
    assert_eq!(after.store.next_due_ms().unwrap(), Some(fixture.clock.now_ms()));
}

#[test]
fn p4_jobs_ended_by_the_store_have_webhook_deliveries() {
    let fixture = Fixture::new();
    fixture.submit([hooked(1, ANN, "a.test"), hooked(2, ANN, "b.test")]);
    fixture.store.cancel(ANN, id(2)).wait().unwrap();
    let lease = fixture.claim();
    assert_eq!(lease.job.id, id(1));
    let poisoned = fixture.crash_with(&Limits { crashes: 1, ..Limits::default() });
    let job = poisoned.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!(job.error.unwrap().code, FailureCode::Poison);
    let subjects: BTreeSet<String> = due(&poisoned).iter().map(|d| d.subject.to_string()).collect();
    assert_eq!(subjects, [id(1), id(2)].map(|job| job.to_string()).into());
}

#[test]
fn a_crash_between_sending_and_settling_repeats_the_same_delivery_id() {
    let fixture = Fixture::new();
    run(&fixture, hooked(1, ANN, "a.test"));
    let sent = due(&fixture);
    let after = fixture.crash();
    assert_eq!(due(&after), sent, "sent again with the same id");
    after
        .store
        .settle(sent[0].id, DeliveryAttempt { status: Some(200), error: None, next: AfterAttempt::Delivered })
        .wait()
        .unwrap();
    let last = after.crash();
    assert!(due(&last).is_empty());
    let delivery = last.store.delivery(ANN, sent[0].id).unwrap().unwrap();
    assert_eq!(
        (delivery.state, delivery.last_status, delivery.tries),
        (DeliveryState::Delivered, Some(200), 1)
    );
}

#[test]
fn jobs_that_end_at_the_same_time_have_separate_deliveries() {
    let fixture = Fixture::new();
    // Equal random bits; only the time of acceptance differs.
    for time in 1..=3_u128 {
        run(&fixture, hooked((time << 80) | 7, ANN, &format!("h{time}.test")));
    }
    let ids: BTreeSet<DeliveryId> = due(&fixture).iter().map(|d| d.id).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_failed_delivery_waits_and_the_longest_due_comes_first() {
    let fixture = Fixture::new();
    run(&fixture, hooked(1, ANN, "a.test"));
    fixture.clock.advance(10);
    run(&fixture, hooked(2, ANN, "b.test"));
    let first = due(&fixture);
    assert_eq!(
        first.iter().map(|d| d.subject).collect::<Vec<_>>(),
        [1, 2].map(|n| WebhookSubject::Job(id(n)))
    );
    let at_ms = fixture.clock.now_ms() + 5_000;
    fixture.store.settle(first[0].id, attempt(AfterAttempt::Retry { at_ms })).wait().unwrap();
    assert_eq!(due(&fixture).len(), 1, "not before its time");
    fixture.clock.advance(5_000);
    let later = due(&fixture);
    assert_eq!(later.iter().map(|d| d.id).collect::<Vec<_>>(), [first[1].id, first[0].id]);
    assert_eq!((later[1].tries, later[1].last_status), (1, Some(500)));
}

fn jobs_of(deliveries: &[Delivery]) -> Vec<WebhookSubject> {
    deliveries.iter().map(|delivery| delivery.subject).collect()
}

#[test]
fn only_one_delivery_of_a_user_is_due_for_each_receiver_and_none_for_a_busy_one() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        run(&fixture, hooked(number, ANN, "a.test"));
    }
    run(&fixture, hooked(4, ANN, "b.test"));
    assert_eq!(due(&fixture).len(), 2);
    let mut turns = DeliveryTurns::default();
    turns.take(ANN, "a.test");
    let next = |turns: &DeliveryTurns, max| fixture.store.due(fixture.clock.now_ms(), max, turns).unwrap();
    assert_eq!(jobs_of(&next(&turns, 100)), [WebhookSubject::Job(id(4))]);
    assert_eq!(next(&DeliveryTurns::default(), 1).len(), 1);
    assert!(next(&DeliveryTurns::default(), 0).is_empty());
}

#[test]
fn p7_due_deliveries_of_users_take_turns() {
    let fixture = Fixture::new();
    for number in 1..=20 {
        run(&fixture, hooked(number, ANN, &format!("h{number}.test")));
        fixture.clock.advance(1);
    }
    run(&fixture, hooked(21, BOB, "h1.test"));
    let next = |turns: &DeliveryTurns, max| {
        let due = fixture.store.due(fixture.clock.now_ms(), max, turns).unwrap();
        due.iter().map(|delivery| delivery.subject).collect::<Vec<_>>()
    };
    let subject = |number| WebhookSubject::Job(id(number));
    assert_eq!(next(&DeliveryTurns::default(), 3), [1, 21, 2].map(subject));
    let mut turns = DeliveryTurns::default();
    turns.take(ANN, "h1.test");
    assert_eq!(next(&turns, 2), [21, 2].map(subject), "users wait for receivers of their own alone");
}

#[test]
fn p7_deliveries_are_listed_newest_first_for_their_owner_only() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        run(&fixture, hooked(number, ANN, &format!("h{number}.test")));
        fixture.clock.advance(1);
    }
    run(&fixture, hooked(4, BOB, "b.test"));
    let mine = all(&fixture, ANN, None);
    assert_eq!(
        mine.iter().map(|d| d.subject).collect::<Vec<_>>(),
        [3, 2, 1].map(|n| WebhookSubject::Job(id(n)))
    );
    fixture.store.settle(mine[1].id, attempt(AfterAttempt::Dead)).wait().unwrap();
    assert_eq!(all(&fixture, ANN, Some(DeliveryState::Dead)).len(), 1);
    assert_eq!(all(&fixture, ANN, Some(DeliveryState::Pending)).len(), 2);
    assert_eq!(
        all(&fixture, ANN, None).iter().map(|d| d.id).collect::<Vec<_>>(),
        [mine[0].id, mine[1].id, mine[2].id]
    );
    let page = |before| {
        fixture.store.deliveries(&DeliveryQuery { user: ANN, state: None, before, limit: 2 }).unwrap()
    };
    let first = page(None);
    assert!(first.has_more && first.deliveries.len() == 2);
    let second = page(Some(first.deliveries[1].id));
    assert!(!second.has_more);
    assert_eq!(second.deliveries.iter().map(|d| d.id).collect::<Vec<_>>(), [mine[2].id]);
    let foreign = all(&fixture, BOB, None)[0].id;
    assert_eq!(fixture.store.delivery(ANN, foreign).unwrap(), None);
    assert_eq!(fixture.store.again(ANN, foreign).wait().unwrap(), None);
}

#[test]
fn a_dead_delivery_can_be_started_again() {
    let fixture = Fixture::new();
    run(&fixture, hooked(1, ANN, "a.test"));
    let id = due(&fixture)[0].id;
    fixture.store.settle(id, attempt(AfterAttempt::Dead)).wait().unwrap();
    fixture.store.settle(id, attempt(AfterAttempt::Delivered)).wait().unwrap();
    assert_eq!(
        fixture.store.delivery(ANN, id).unwrap().unwrap().state,
        DeliveryState::Dead,
        "a settled delivery cannot be settled again"
    );
    assert!(due(&fixture).is_empty());
    let again = fixture.store.again(ANN, id).wait().unwrap().unwrap();
    assert_eq!((again.state, again.tries), (DeliveryState::Pending, 0));
    assert_eq!(due(&fixture).iter().map(|d| d.id).collect::<Vec<_>>(), [id]);
}

#[test]
fn p8_settled_deliveries_expire_after_30_days_and_pending_ones_never() {
    let fixture = Fixture::new();
    for number in 1..=20 {
        run(&fixture, hooked(number, ANN, &format!("h{number}.test")));
    }
    let old = due(&fixture);
    for delivery in &old[..19] {
        fixture.store.settle(delivery.id, attempt(AfterAttempt::Dead)).wait().unwrap();
    }
    fixture.clock.advance(30 * DAY_MS - 1);
    run(&fixture, hooked(21, ANN, "new.test"));
    let new = all(&fixture, ANN, None)[0].id;
    fixture.store.settle(new, attempt(AfterAttempt::Retry { at_ms: fixture.clock.now_ms() })).wait().unwrap();
    assert_eq!(all(&fixture, ANN, None).len(), 21, "not before their time");
    fixture.clock.advance(1);
    fixture.store.settle(new, attempt(AfterAttempt::Retry { at_ms: fixture.clock.now_ms() })).wait().unwrap();
    assert_eq!(all(&fixture, ANN, None).len(), 21 - 16, "a few at a time");
    fixture.store.settle(new, attempt(AfterAttempt::Delivered)).wait().unwrap();
    let left: BTreeSet<DeliveryId> = all(&fixture, ANN, None).iter().map(|d| d.id).collect();
    assert_eq!(left, [new, old[19].id].into());
    assert_eq!(due(&fixture).iter().map(|d| d.id).collect::<Vec<_>>(), [old[19].id]);
}
