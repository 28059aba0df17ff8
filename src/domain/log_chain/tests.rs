//! Properties of chains, folds and checkpoints: each change of a log is found where it is.

use super::*;
use crate::domain::id::JobId;
use proptest::prelude::*;
use proptest::sample::Index;

const JOB: JobId = JobId::from_bits(7);

fn key() -> LogSigningKey {
    LogSigningKey::from_seed([3; 32]).unwrap()
}

/// The chained log of an ended job: events, each with this many marks behind it, and a terminal event.
fn log(events: &[(String, u8)]) -> LogChain {
    let mut places = Vec::new();
    for (seq, (text, marks)) in (1..).zip(events) {
        for sub in 0..=u32::from(*marks) {
            places.push((RecordPlace { seq, sub }, format!("{{\"text\":\"{text} {seq} {sub}\"}}")));
        }
    }
    places.push((RecordPlace::event(events.len() as u64 + 1), "{\"event\":\"done\"}".to_owned()));
    let mut link = ChainLink::start(JOB);
    let linked = places.into_iter().map(|(place, body)| {
        link = link.after(place, body.as_bytes());
        LogRecord { place, body, link: Some(link) }
    });
    let records = linked.collect();
    LogChain { job: JOB, is_ended: true, is_imported: false, head: Some(link), fold: None, records }
}

fn logs() -> impl Strategy<Value = LogChain> {
    prop::collection::vec(("[a-z]{0,3}", 0..3_u8), 1..12).prop_map(|events| log(&events))
}

/// The log after a fold that removes the records of these positions and shortens others.
fn folded(log: &LogChain, removed: &[Index]) -> LogChain {
    let before_end = log.records.len() - 1;
    let removed: Vec<usize> =
        removed.iter().filter(|_| before_end > 0).map(|index| index.index(before_end)).collect();
    let left = log.records[..before_end].iter().enumerate().filter(|(at, _)| !removed.contains(at));
    let left: Vec<_> = left.map(|(at, found)| (found.place, format!("{}{at}", found.body))).collect();
    let fold = log.fold(FoldKind::Deltas, &left, 5, &[key().public_key()]).unwrap().unwrap();
    let record = |((place, body), (_, link)): ((RecordPlace, String), &(RecordPlace, ChainLink))| LogRecord {
        place,
        body,
        link: Some(*link),
    };
    let mut records: Vec<_> = left.into_iter().zip(&fold.links).map(record).collect();
    records.push(log.records[before_end].clone());
    let note = fold.note.signed(key().sign(&fold.note.message()));
    LogChain { fold: Some(note), records, ..log.clone() }
}

fn verify(log: &LogChain) -> Result<ChainVerdict, ChainFault> {
    log.verify(&[key().public_key()])
}

fn place_of(log: &LogChain) -> Option<RecordPlace> {
    verify(log).expect_err("a fault").place()
}

proptest! {
    #[test]
    fn a_log_as_it_was_written_is_intact(log in logs()) {
        let head = log.head.unwrap();
        prop_assert_eq!(verify(&log), Ok(ChainVerdict::Intact { head, fold: None }));
    }

    #[test]
    fn a_changed_record_is_named(mut log in logs(), at: Index, text in "[a-z]{1,5}") {
        let at = at.index(log.records.len());
        let record = &mut log.records[at];
        record.body.push_str(&text);
        let place = record.place;
        prop_assert_eq!(place_of(&log), Some(place));
    }

    #[test]
    fn a_changed_or_lost_link_is_named(mut log in logs(), at: Index, is_lost: bool) {
        let at = at.index(log.records.len());
        let record = &mut log.records[at];
        record.link = Some(ChainLink::start(JobId::from_bits(8))).filter(|_| !is_lost);
        let place = record.place;
        prop_assert_eq!(place_of(&log), Some(place));
    }

    #[test]
    fn a_missing_event_is_named(mut log in logs(), at: Index) {
        // An event goes with its marks, and the log goes on behind it.
        let events = log.records.len() as u64;
        let last = log.records.last().unwrap().place.seq;
        let seq = 1 + at.index(usize::try_from(last - 1).unwrap()) as u64;
        log.records.retain(|record| record.place.seq != seq);
        prop_assert!((log.records.len() as u64) < events);
        prop_assert_eq!(verify(&log), Err(ChainFault::Missing(RecordPlace::event(seq))));
    }

    #[test]
    fn a_missing_mark_is_found_at_its_place_or_at_the_next_event(mut log in logs(), at: Index) {
        let marks: Vec<usize> = (0..log.records.len()).filter(|at| log.records[*at].place.sub > 0).collect();
        prop_assume!(!marks.is_empty());
        let gone = log.records.remove(marks[at.index(marks.len())]).place;
        let found = place_of(&log).unwrap();
        prop_assert!(found == gone || found == RecordPlace::event(gone.seq + 1), "{gone} {found}");
    }

    /// With their links, as rows that were swapped, or without them.
    #[test]
    fn two_records_that_changed_places_are_named(mut log in logs(), at: (Index, Index), with_links: bool) {
        let (one, other) = (at.0.index(log.records.len()), at.1.index(log.records.len()));
        let (one, other) = (one.min(other), one.max(other));
        prop_assume!(log.records[one].body != log.records[other].body);
        let [first, second] = log.records.get_disjoint_mut([one, other]).unwrap();
        std::mem::swap(&mut first.body, &mut second.body);
        if with_links {
            std::mem::swap(&mut first.link, &mut second.link);
        }
        let (place, found) = (first.place, second.place);
        prop_assert_eq!(verify(&log), Err(ChainFault::Moved { place, found }));
    }

    #[test]
    fn a_log_that_lost_its_end_is_not_the_one_that_its_job_names(mut log in logs(), left: Index) {
        let left = left.index(log.records.len());
        log.records.truncate(left);
        let last = log.records.last().map(|record| record.place);
        let fault = last.map_or(ChainFault::NoRecords, |last| ChainFault::OtherHead { last });
        prop_assert_eq!(verify(&log), Err(fault));
    }

    #[test]
    fn a_rewritten_chain_does_not_have_the_head(one in logs(), other in logs()) {
        prop_assume!(one.head != other.head);
        let last = other.records.last().unwrap().place;
        let rewritten = LogChain { head: one.head, ..other };
        prop_assert_eq!(verify(&rewritten), Err(ChainFault::OtherHead { last }));
    }

    #[test]
    fn a_folded_log_is_intact_and_has_the_same_head(log in logs(), removed: Vec<Index>) {
        let folded = folded(&log, &removed);
        let (head, fold) = (log.head.unwrap(), Some(FoldKind::Deltas));
        prop_assert_eq!(verify(&folded), Ok(ChainVerdict::Intact { head, fold }));
        let again = self::folded(&folded, &removed);
        prop_assert_eq!(verify(&again), Ok(ChainVerdict::Intact { head, fold }), "a fold of a fold");
    }

    #[test]
    fn a_record_that_was_changed_after_a_fold_is_named(log in logs(), removed: Vec<Index>, at: Index) {
        let mut folded = folded(&log, &removed);
        let at = at.index(folded.records.len());
        let record = &mut folded.records[at];
        record.body.push('x');
        let place = record.place;
        prop_assert_eq!(place_of(&folded), Some(place));
    }

    #[test]
    fn a_record_that_was_removed_after_a_fold_is_missed(log in logs(), at: Index) {
        let mut folded = folded(&log, &[]);
        folded.records.remove(at.index(folded.records.len() - 1));
        prop_assert!(verify(&folded).is_err());
    }
}

#[test]
fn a_note_is_believed_only_with_the_signature_of_the_server() {
    let whole = log(&[("a".to_owned(), 1), ("b".to_owned(), 0)]);
    let mut folded = folded(&whole, &[]);
    let note = folded.fold.unwrap();
    let unsigned = Err(ChainFault::Unsigned(RecordPlace::event(2)));
    for wrong in [
        FoldNote { signature: None, ..note },
        FoldNote { at_ms: 6, ..note },
        FoldNote { kind: FoldKind::Cut, ..note },
        FoldNote { left: note.after, ..note },
        note.signed(LogSigningKey::from_seed([4; 32]).unwrap().sign(&note.message())),
    ] {
        folded.fold = Some(wrong);
        assert_eq!(verify(&folded), unsigned);
    }
    let of_another = FoldNote { before: ChainLink::start(JobId::from_bits(8)), ..note };
    folded.fold = Some(of_another.signed(key().sign(&of_another.message())));
    assert_eq!(verify(&folded), Err(ChainFault::NotAsFolded(RecordPlace::event(3))));
}

#[test]
fn a_log_with_a_fault_is_not_folded() {
    let mut log = log(&[("a".to_owned(), 0)]);
    log.records[0].body = "{}".to_owned();
    let fault = ChainFault::Changed(RecordPlace::FIRST);
    assert_eq!(log.fold(FoldKind::Deltas, &[], 5, &[]), Err(fault));
}

#[test]
fn a_log_of_an_earlier_version_is_not_chained() {
    let mut log = log(&[("a".to_owned(), 1)]);
    log.head = None;
    assert_eq!(verify(&log), Err(ChainFault::NoHead), "each record has a link: the head was removed");
    log.records.last_mut().unwrap().link = None;
    assert_eq!(verify(&log), Ok(ChainVerdict::NotChained));
    assert_eq!(log.fold(FoldKind::Deltas, &[], 5, &[]), Ok(None));
}

#[test]
fn a_job_that_runs_has_an_intact_log_without_a_head() {
    let mut log = log(&[("a".to_owned(), 1)]);
    log.records.pop();
    (log.head, log.is_ended) = (None, false);
    assert!(matches!(verify(&log), Ok(ChainVerdict::Intact { .. })));
}

#[test]
fn a_key_is_read_from_its_own_text() {
    let (key, message) = (key(), b"message");
    let same = LogSigningKey::from_text(&key.to_text()).unwrap();
    assert!(same.public_key().has_signed(message, &key.sign(message)));
    assert!(!same.public_key().has_signed(b"another", &key.sign(message)));
    assert_eq!(LogPublicKey::from_text(&key.public_key().to_string()), Some(key.public_key()));
    assert_eq!(format!("{key:?}"), "LogSigningKey(***)");
    assert!(LogSigningKey::from_text("00").is_none());
}

fn heads(jobs: std::ops::Range<u128>) -> CheckpointJobs {
    CheckpointJobs::new(
        jobs.rev().map(|n| (JobId::from_bits(n), ChainLink::start(JobId::from_bits(n)))).collect(),
    )
}

#[test]
fn checkpoints_prove_their_jobs_and_the_ones_before() {
    let (key, public_key) = (key(), key().public_key());
    let first = StoredCheckpoint::new(None, heads(1..4), (10, 9), &key);
    let second = StoredCheckpoint::new(Some(&first.checkpoint), heads(4..5), (20, 19), &key);
    let verify = |stored: &StoredCheckpoint, before| stored.verify(before, &[public_key]);
    assert_eq!(verify(&first, None), Ok(()));
    assert_eq!(verify(&second, Some(&first.checkpoint)), Ok(()));
    assert_eq!((second.checkpoint.number, second.checkpoint.after_ms, second.checkpoint.jobs), (2, 9, 1));
    let text = serde_json::to_string(&second).unwrap();
    assert_eq!(serde_json::from_str::<StoredCheckpoint>(&text).unwrap(), second);

    assert_eq!(verify(&second, None), Err(CheckpointFault::Unchained(2)), "the first one was removed");
    let other_jobs = StoredCheckpoint { heads: heads(1..3), ..first.clone() };
    assert_eq!(verify(&other_jobs, None), Err(CheckpointFault::OtherJobs(1)));
    let other_key = LogSigningKey::from_seed([8; 32]).unwrap();
    let forged = StoredCheckpoint::new(None, heads(1..3), (10, 9), &other_key);
    assert_eq!(verify(&forged, None), Err(CheckpointFault::Unsigned(1)));
    let replaced = StoredCheckpoint::new(None, heads(1..3), (10, 9), &key);
    assert_eq!(verify(&second, Some(&replaced.checkpoint)), Err(CheckpointFault::Unchained(2)));
}
