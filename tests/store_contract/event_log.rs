//! Events and marks: sequence numbers, merging, paging, and fences.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, delta, done, id, job};
use nanoclaw::domain::event::{EngineMark, Event, FinishReason, Record, StatusPhase};
use nanoclaw::domain::job::JobStatus;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{CancelReason, Fence, LeaseError, StoreError, SubmitError, Urgency};

fn mark() -> Record {
    EngineMark::model_finished(FinishReason::Stop, Usage::new(1, 1), None).into()
}

#[test]
fn p1_a_submitted_job_is_durable_with_its_first_event() {
    let fixture = Fixture::new();
    let stored = fixture.store.submit(vec![job(1, ANN)]).wait().unwrap().pop().unwrap();
    assert_eq!(stored.status, JobStatus::Queued);
    assert_eq!(stored.last_event_id, 1);
    let after = fixture.crash();
    assert_eq!(after.store.job(ANN, id(1)), Ok(Some(stored)));
    let page = after.store.events(id(1), 0, 10).unwrap();
    assert_eq!(page.last_seq, 1);
    assert_eq!(page.events[0].event, Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None });
}

#[test]
fn a_finished_job_has_a_log_a_row_and_an_output() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    assert_eq!((lease.job.attempt, lease.job.epoch, lease.job.status), (1, 1, JobStatus::Running));
    assert_eq!(lease.job.started_at_ms, Some(1_000_000));
    assert_eq!(*lease.spec, job(1, ANN).spec);
    assert_eq!(fixture.store.output(id(1)), Ok(None), "unfinished");
    fixture.store.append(lease.fence(), vec![delta(0, 0, "he"), mark()], Urgency::Now).wait().unwrap();
    fixture.store.finish(lease.fence(), vec![delta(1, 0, "!")], done(id(1), "he!")).wait().unwrap();
    let ended = fixture.store.job(ANN, id(1)).unwrap().unwrap();
    assert_eq!((ended.status, ended.last_event_id, ended.usage), (JobStatus::Succeeded, 5, Usage::new(1, 1)));
    assert_eq!(fixture.store.output(id(1)), Ok(Some("he!".to_owned())));
    assert_eq!(fixture.store.log(id(1)).unwrap().len(), 6, "five events and a mark");
    let page = fixture.store.events(id(1), 0, 100).unwrap();
    assert_eq!(page.events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(page.events[4].event.is_terminal());
}

#[test]
fn p2_marks_have_no_sequence_number_and_keep_their_position() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    let records = vec![mark(), delta(0, 0, "a"), mark(), mark(), delta(1, 0, "b"), mark()];
    fixture.store.append(fence, records.clone(), Urgency::Now).wait().unwrap();
    let seqs: Vec<_> = fixture.store.events(id(1), 2, 9).unwrap().events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, [3, 4]);
    let kinds = |records: &[Record]| records.iter().map(|r| matches!(r, Record::Mark(_))).collect::<Vec<_>>();
    assert_eq!(kinds(&fixture.store.log(id(1)).unwrap()[2..]), kinds(&records));
}

#[test]
fn adjacent_deltas_in_one_group_are_merged_into_one_event() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    let soon = |records| fixture.store.append(fence, records, Urgency::Soon);
    let tickets = [
        soon(vec![delta(0, 0, "é")]),
        soon(vec![delta(0, 2, "b"), delta(0, 3, "c")]),
        soon(vec![delta(1, 0, "d")]),
    ];
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    fixture.store.append(fence, vec![delta(1, 1, "e")], Urgency::Soon).wait().unwrap();
    let events = fixture.store.events(id(1), 2, 9).unwrap().events;
    let seen: Vec<_> = events
        .iter()
        .map(|e| match &e.event {
            Event::Delta { index, offset, first_seq, text, .. } => {
                (e.seq, *index, *offset, *first_seq, text.as_str())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(3, 0, 0, 3, "ébc"), (4, 1, 0, 4, "d"), (5, 1, 1, 4, "e")]);
    assert_eq!(fixture.store.step_text(id(1), 4, 5), Ok("de".to_owned()));
    assert_eq!(fixture.store.step_text(id(1), 4, 4), Ok("d".to_owned()));
}

#[test]
fn deltas_that_are_not_adjacent_or_too_long_are_not_merged() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    let records = vec![delta(0, 0, "a"), mark(), delta(0, 1, "b"), delta(0, 7, "gap")];
    fixture.store.append(fence, records, Urgency::Soon).wait().unwrap();
    assert_eq!(fixture.store.events(id(1), 2, 9).unwrap().events.len(), 3);
    let long = "x".repeat(50_000);
    let records = vec![delta(1, 0, &long), delta(1, 50_000, &long)];
    fixture.store.append(fence, records, Urgency::Soon).wait().unwrap();
    assert_eq!(fixture.store.events(id(1), 5, 9).unwrap().events.len(), 2, "p8: one event is at most 64 KiB");
}

#[test]
fn adjacent_deltas_of_one_commit_are_one_event_and_those_of_two_commits_are_two() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    fixture.store.append(fence, vec![delta(0, 0, "a"), delta(0, 1, "b")], Urgency::Now).wait().unwrap();
    assert_eq!(fixture.store.events(id(1), 2, 9).unwrap().events.len(), 1);
    fixture.store.append(fence, vec![delta(0, 2, "c")], Urgency::Now).wait().unwrap();
    assert_eq!(fixture.store.events(id(1), 2, 9).unwrap().events.len(), 2, "what was seen stays");
}

#[test]
fn a_page_of_events_ends_at_max_or_64_kib_and_the_next_one_continues() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    let long = "x".repeat(10_000);
    let records = (0..20).map(|n| delta(n, 0, &long)).collect();
    fixture.store.append(fence, records, Urgency::Now).wait().unwrap();
    let page = fixture.store.events(id(1), 0, 256).unwrap();
    assert!((7..=10).contains(&page.events.len()), "{}", page.events.len());
    assert_eq!(page.last_seq, 22);
    let (mut after, mut seqs) = (0, Vec::new());
    loop {
        let page = fixture.store.events(id(1), after, 3).unwrap();
        assert!(page.events.len() <= 3);
        let Some(last) = page.events.last() else { break };
        after = last.seq;
        seqs.extend(page.events.iter().map(|e| e.seq));
    }
    assert_eq!(seqs, (1..=22).collect::<Vec<_>>());
    assert_eq!(fixture.store.events(id(1), u64::MAX, 3).unwrap().events, []);
}

#[test]
fn a_lost_lease_writes_nothing() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.release(lease.fence()).wait().unwrap();
    let again = fixture.claim();
    assert_eq!((again.job.epoch, again.job.attempt), (2, 1), "a release does not count");
    let before = fixture.store.log(id(1)).unwrap();
    let lost = Err(LeaseError::Fenced { job: id(1) });
    assert_eq!(fixture.store.append(lease.fence(), vec![mark()], Urgency::Now).wait(), lost);
    assert_eq!(fixture.store.finish(lease.fence(), vec![], done(id(1), "x")).wait(), lost);
    assert_eq!(fixture.store.release(lease.fence()).wait(), lost);
    let foreign = Fence { job: id(9), epoch: 1 };
    assert!(fixture.store.append(foreign, vec![mark()], Urgency::Now).wait().is_err());
    assert_eq!(fixture.store.log(id(1)).unwrap(), before);
    fixture.store.append(again.fence(), vec![mark()], Urgency::Now).wait().unwrap();
}

#[test]
fn p4_only_finish_writes_a_terminal_event_and_nothing_follows_it() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let fence = fixture.claim().fence();
    let terminal = Record::Event(done(id(1), "x").event);
    assert!(fixture.store.append(fence, vec![terminal.clone()], Urgency::Now).wait().is_err());
    assert!(fixture.store.finish(fence, vec![terminal], done(id(1), "x")).wait().is_err());
    let mut no_end = done(id(1), "x");
    no_end.event = Event::StepDiscarded { index: 0 };
    assert!(fixture.store.finish(fence, vec![], no_end).wait().is_err());
    assert_eq!(fixture.store.events(id(1), 0, 9).unwrap().last_seq, 2, "refused writes change nothing");
    fixture.store.finish(fence, vec![], done(id(1), "x")).wait().unwrap();
    assert!(fixture.store.finish(fence, vec![], done(id(1), "y")).wait().is_err());
    assert!(fixture.store.append(fence, vec![mark()], Urgency::Now).wait().is_err());
    assert_eq!(fixture.store.events(id(1), 0, 9).unwrap().last_seq, 3);
}

#[test]
fn an_invalid_write_fails_without_affecting_its_group() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let (twice, good) = (fixture.store.submit(vec![job(1, BOB)]), fixture.store.submit(vec![job(2, BOB)]));
    assert!(matches!(twice.wait(), Err(SubmitError::Store(StoreError::Corrupt(_)))), "an id is stored once");
    assert_eq!(good.wait().unwrap()[0].id, id(2));
    assert_eq!(fixture.store.job(BOB, id(1)), Ok(None));
    assert_eq!(fixture.store.job(ANN, id(1)).unwrap().unwrap().user, ANN);
}

#[test]
fn a_watch_sees_commits() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN)]);
    let mut watch = fixture.store.watch(id(1));
    assert_eq!(*watch.borrow_and_update(), 1);
    let lease = fixture.claim();
    fixture.store.append(lease.fence(), vec![delta(0, 0, "a")], Urgency::Soon).wait().unwrap();
    assert_eq!(*watch.borrow_and_update(), 3);
    assert_eq!(lease.cancel.reason(), None::<CancelReason>);
}
