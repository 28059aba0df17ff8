//! Races of cancel with finish and with release from two threads (P4).

use crate::support::store::{ANN, ManualClock, cancelled, delta, done, id, job};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{Clock, Lease, Store};
use nanoclaw::store::RedbStore;
use nanoclaw::store::options::StoreOptions;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const ROUNDS: u128 = 1_000;
/// Maximum time of one round on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The worker's side of a round: checks the cancel token as late as possible, like the engine.
fn end(store: &RedbStore, lease: &Lease, round: u128) {
    let (fence, job) = (lease.fence(), lease.job.id);
    let ended = match (lease.cancel.reason(), round % 4) {
        (Some(_), _) => store.finish(fence, Vec::new(), cancelled()).wait(),
        (None, 3) => store.release(fence).wait(),
        (None, _) => store.finish(fence, vec![delta(1, 0, "last")], done(job, "answer")).wait(),
    };
    ended.unwrap();
}

fn works(
    store: &Arc<RedbStore>,
    start: &Arc<Barrier>,
) -> (std::sync::mpsc::Sender<(Lease, u128)>, Receiver<()>) {
    let (leases, inbox) = channel::<(Lease, u128)>();
    let (outbox, ended) = channel();
    let (store, start) = (Arc::clone(store), Arc::clone(start));
    std::thread::spawn(move || {
        for (lease, round) in inbox {
            start.wait();
            // Different pauses let either side or both come first.
            let pause_us = u64::try_from(round % 7 * 150).unwrap();
            lease.cancel.wait(Duration::from_micros(pause_us));
            end(&store, &lease, round);
            outbox.send(()).unwrap();
        }
    });
    (leases, ended)
}

#[test]
fn p4_a_thousand_races_of_cancel_and_finish_leave_one_end_each() {
    let (clock, options) = (ManualClock::new() as Arc<dyn Clock>, StoreOptions::default());
    let store = RedbStore::open_with_backend(
        redb::backends::InMemoryBackend::new,
        &options,
        &Limits::default(),
        clock,
    );
    let (store, start) = (store.unwrap(), Arc::new(Barrier::new(2)));
    let (leases, ended) = works(&store, &start);
    let (mut succeeded, mut was_cancelled) = (0, 0);
    for round in 1..=ROUNDS {
        store.submit(vec![job(round, ANN)]).wait().unwrap();
        let lease = store.claim(1).wait().unwrap().pop().expect("the job of this round");
        assert_eq!(lease.job.id, id(round), "earlier rounds left no job");
        leases.send((lease, round)).unwrap();
        start.wait();
        let answer = store.cancel(ANN, id(round)).wait().unwrap().expect("the job of its user");
        ended.recv_timeout(PATIENCE).expect("the worker has ended the job");
        let row = store.job(ANN, id(round)).unwrap().expect("the job exists");
        assert!(
            row.status.is_terminal(),
            "round {round}: cancelled as {answer:?}, but the job continues: {row:?}"
        );
        let page = store.events(id(round), 0, 1_000).unwrap();
        let terminal: Vec<_> = page.events.iter().filter(|event| event.event.is_terminal()).collect();
        assert_eq!(terminal.len(), 1, "round {round}: {page:?}");
        assert!(page.events.last().unwrap().event.is_terminal(), "round {round}: {page:?}");
        assert!(page.events.iter().map(|event| event.seq).eq(1..=page.last_seq), "round {round}: {page:?}");
        assert_eq!(row.last_event_id, page.last_seq, "round {round}");
        let was_answered_as_ended = answer.status.is_terminal();
        assert!(!was_answered_as_ended || answer.status == row.status, "round {round}: {answer:?}, {row:?}");
        succeeded += u32::from(row.status == JobStatus::Succeeded);
        was_cancelled += u32::from(row.status == JobStatus::Cancelled);
    }
    println!("{succeeded} succeeded, {was_cancelled} were cancelled");
    assert!(succeeded > 0 && was_cancelled > 0, "one side always wins, so there was no race");
}
