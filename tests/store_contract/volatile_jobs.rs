//! Jobs in memory: begun without a commit for a waiting worker, stored at the latest with their end.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, cost, delta, done, id, job, turn};
use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::job::{JobSpec, JobStatus};
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::tool::ToolChoice;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{CancelToken, JobQuery, Lease, LeaseError, NewJob, NodeStore, Urgency};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// A job without tools.
fn plain(number: u128) -> NewJob {
    let new = job(number, ANN);
    NewJob { spec: JobSpec { tools: ToolChoice::All(false), ..new.spec }, ..new }
}

/// A worker that waits for one job.
fn worker(store: &Arc<dyn NodeStore>) -> mpsc::Receiver<Lease> {
    let (sender, receiver) = mpsc::channel();
    let store = Arc::clone(store);
    std::thread::spawn(move || {
        let stop = CancelToken::new(Arc::new(SystemClock::new()));
        if let Ok(Some(lease)) = store.claim_next(&stop, LONG) {
            drop(sender.send(lease));
        }
    });
    receiver
}

/// Begins the job with a worker of its own.
fn begin(fixture: &Fixture, new: &NewJob) -> Lease {
    let leases = worker(&fixture.store);
    // The worker's thread has to wait first.
    for _ in 0..20_000 {
        match fixture.store.begin_in_memory(Box::new(new.clone())) {
            Ok(accepted) => {
                assert_eq!((accepted.id, accepted.status), (new.id, JobStatus::Queued));
                return leases.recv_timeout(LONG).expect("its lease");
            }
            Err(given_back) => assert_eq!(*given_back, *new),
        }
        assert!(leases.recv_timeout(Duration::from_millis(1)).is_err(), "there is nothing else to claim");
    }
    panic!("no worker takes it");
}

fn write(fixture: &Fixture, lease: &Lease, text: &str, offset: u64) {
    let records = vec![delta(0, offset, text)];
    fixture.store.append(lease.fence(), records, Urgency::Now).wait().unwrap();
}

#[test]
fn a_job_in_memory_is_read_as_any_other_and_lost_with_the_process() {
    let fixture = Fixture::file();
    let store = &fixture.store;
    let lease = begin(&fixture, &plain(1));
    assert_eq!((lease.job.status, lease.job.attempt, lease.job.last_event_id), (JobStatus::Running, 1, 2));
    let watch = store.watch(id(1));
    write(&fixture, &lease, "one ", 0);
    assert_eq!(*watch.borrow(), 3, "readers are woken");
    assert_eq!(store.events(id(1), 2, 10).unwrap().events.len(), 1);
    write(&fixture, &lease, "two", 4);
    assert_eq!(store.step_text(id(1), 3, 4).unwrap(), "one two", "what was read does not change");
    assert_eq!(store.log(id(1)).unwrap().len(), 4);
    let row = store.job(ANN, id(1)).unwrap().expect("the job");
    assert_eq!((row.status, row.last_event_id), (JobStatus::Running, 4));
    assert_eq!(store.request(ANN, id(1)).unwrap(), Some(plain(1).spec));
    assert_eq!(store.input(id(1)).unwrap(), Some(plain(1).spec.input));
    assert_eq!(store.output(id(1)).unwrap(), None);
    assert_eq!((store.unfinished_count(ANN, 9), store.unfinished_count(BOB, 9)), (Ok(1), Ok(0)));
    assert!(store.job(BOB, id(1)).unwrap().is_none() && store.request(BOB, id(1)).unwrap().is_none(), "P7");
    assert_eq!(store.cancel(BOB, id(1)).wait().unwrap(), None, "P7");
    let other = begin(&fixture, &plain(2));
    write(&fixture, &other, "x", 0);
    let crashed = fixture.crash();
    assert_eq!(crashed.store.job(ANN, id(2)), Ok(None), "a crash loses it");
    assert_eq!(crashed.store.events(id(2), 0, 9).unwrap().last_seq, 0);
}

#[test]
fn p4_its_end_stores_all_of_it_with_the_numbers_that_readers_saw() {
    let fixture = Fixture::file();
    let store = &fixture.store;
    let lease = begin(&fixture, &plain(1));
    write(&fixture, &lease, "one ", 0);
    let mut seen = store.events(id(1), 0, 100).unwrap().events;
    write(&fixture, &lease, "two ", 4);
    write(&fixture, &lease, "three", 8);
    let usage = Usage::new(3, 4);
    store.finish(lease.fence(), vec![cost(None, usage)], done(id(1), "one two three")).wait().unwrap();
    seen.extend(store.events(id(1), seen.len() as u64, 100).unwrap().events);
    let crashed = fixture.crash();
    for store in [store, &crashed.store] {
        let page = store.events(id(1), 0, 100).unwrap();
        assert_eq!((page.events, page.last_seq), (seen.clone(), 5), "the last two deltas became one");
        let row = store.job(ANN, id(1)).unwrap().expect("the job");
        assert_eq!((row.status, row.usage, row.last_event_id), (JobStatus::Succeeded, usage, 5));
        assert_eq!(store.output(id(1)).unwrap().as_deref(), Some("one two three"));
        assert_eq!(store.unfinished_count(ANN, 9), Ok(0));
    }
    let again = store.finish(lease.fence(), vec![], done(id(1), "again")).wait();
    assert_eq!(again, Err(LeaseError::Fenced { job: id(1) }));
    assert_eq!(store.append(lease.fence(), vec![delta(1, 0, "late")], Urgency::Now).wait(), again);
    assert_eq!(store.delete(ANN, id(1)).wait(), Ok(true));
}

#[test]
fn a_cancel_stores_it_and_its_worker_ends_it() {
    let fixture = Fixture::file();
    let lease = begin(&fixture, &plain(1));
    write(&fixture, &lease, "half", 0);
    let row = fixture.store.cancel(ANN, id(1)).wait().unwrap().expect("the job");
    assert!(row.cancel_requested && lease.cancel.is_cancelled());
    write(&fixture, &lease, " more", 4);
    assert_eq!(fixture.crash().store.step_text(id(1), 3, 4).unwrap(), "half more");
    fixture.store.finish(lease.fence(), vec![], cancelled()).wait().unwrap();
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().expect("it").status, JobStatus::Cancelled);
}

#[test]
fn a_released_job_is_stored_and_runs_again_from_its_log() {
    let fixture = Fixture::file();
    let lease = begin(&fixture, &plain(1));
    write(&fixture, &lease, "half", 0);
    fixture.store.release(lease.fence()).wait().unwrap();
    let again = fixture.crash().claim();
    assert_eq!((again.job.id, again.job.attempt, again.job.epoch), (id(1), 1, 2));
    let fenced = fixture.store.append(lease.fence(), vec![delta(0, 4, "x")], Urgency::Now).wait();
    assert_eq!(fenced, Err(LeaseError::Fenced { job: id(1) }));
}

#[test]
fn p8_a_job_with_a_long_log_is_stored() {
    let fixture = Fixture::file();
    let lease = begin(&fixture, &plain(1));
    let text = "x".repeat(300 * 1024);
    for part in 0..4 {
        assert_eq!(fixture.crash().store.job(ANN, id(1)), Ok(None));
        write(&fixture, &lease, &text, part * text.len() as u64);
    }
    let stored = fixture.crash();
    assert_eq!(stored.store.step_text(id(1), 3, 100).unwrap().len(), 4 * text.len());
    fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
}

#[test]
fn a_job_is_given_back_if_it_needs_more_or_must_wait() {
    let fixture = Fixture::file_with(&Limits { queue_jobs: 2, ..Limits::default() });
    let store = &fixture.store;
    let refused = |new: NewJob| store.begin_in_memory(Box::new(new)).is_err();
    assert!(refused(plain(1)), "no worker is free");
    let lease = begin(&fixture, &plain(1));
    let second = worker(store);
    // Time to wait; a slow start only weakens the test.
    assert!(second.recv_timeout(Duration::from_millis(100)).is_err());
    assert!(refused(job(2, ANN)), "tools of the server");
    assert!(refused(turn(2, ANN, "talk")), "a conversation");
    let later = plain(2);
    assert!(refused(NewJob { spec: JobSpec { run_at_ms: Some(u64::MAX), ..later.spec }, ..later }));
    fixture.submit([job(3, ANN)]);
    assert_eq!(second.recv_timeout(LONG).unwrap().job.id, id(3));
    let third = worker(store);
    assert!(third.recv_timeout(Duration::from_millis(100)).is_err());
    assert!(refused(plain(4)), "limits.queue_jobs: one is stored and one is in memory");
    store.finish(lease.fence(), vec![], done(id(1), "x")).wait().unwrap();
    assert!(!refused(plain(4)), "now there is room");
    assert_eq!(third.recv_timeout(LONG).unwrap().job.id, id(4));
    assert!(refused(plain(5)), "the worker is taken");
}

#[test]
fn lists_begin_with_the_jobs_in_memory_and_their_pages_fit_together() {
    let fixture = Fixture::file();
    fixture.submit([job(1, ANN), job(2, ANN), job(3, BOB)]);
    fixture.claim_all();
    let _leases = [4, 5].map(|number| begin(&fixture, &plain(number)));
    let all = [5, 4, 2, 1].map(id);
    for limit in 1..6 {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let query = JobQuery { user: ANN, status: None, filter: JobFilter::NONE, before, limit };
            let page = fixture.store.jobs(&query).unwrap();
            assert!(page.jobs.len() <= limit);
            found.extend(page.jobs.iter().map(|job| job.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, all, "{limit} at once");
    }
    let queued = JobQuery {
        user: ANN,
        status: Some(JobStatus::Queued),
        filter: JobFilter::NONE,
        before: None,
        limit: 9,
    };
    assert!(fixture.store.jobs(&queued).unwrap().jobs.is_empty());
}
