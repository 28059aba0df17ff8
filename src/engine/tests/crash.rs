//! The process dies between any two writes of a job, twice (P3).

use super::fixture::{Fixture, two_batches};
use crate::domain::event::{Event, Record};
use crate::domain::job::JobStatus;
use crate::engine::turn::INTERRUPTED;
use std::collections::HashMap;

/// The published result of every call.
fn results(fixture: &Fixture) -> HashMap<String, String> {
    let result = |record: Record| match record {
        Record::Event(Event::ToolResult { id_ref, content, .. }) => Some((id_ref, content)),
        _ => None,
    };
    let listed: Vec<_> = fixture.store.records().into_iter().filter_map(result).collect();
    let by_id: HashMap<_, _> = listed.iter().cloned().collect();
    assert_eq!(by_id.len(), listed.len(), "a result was published twice: {listed:?}");
    by_id
}

/// The calls with an outcome in the log.
fn recorded(fixture: &Fixture) -> Vec<String> {
    use crate::domain::event::EngineMark;
    let outcome = |record: Record| match record {
        Record::Event(Event::ToolResult { id_ref, .. })
        | Record::Mark(EngineMark::ToolFinished { id_ref, .. }) => Some(id_ref),
        _ => None,
    };
    fixture.store.records().into_iter().filter_map(outcome).collect()
}

/// Runs until the process dies or the job ends; returns whether it died.
fn run_until_death(fixture: &Fixture, writes: usize) -> bool {
    let (recorded_before, runs_before) = (recorded(fixture), fixture.tools.runs().len());
    fixture.store.die_after(writes);
    drop(fixture.tick());
    for run in fixture.tools.runs().iter().skip(runs_before) {
        assert!(
            !recorded_before.contains(&run.id_ref),
            "{} had its result and was run again (P3)",
            run.id_ref
        );
    }
    let died = fixture.store.terminal_events().is_empty();
    fixture.store.restart();
    died
}

#[test]
fn p3_p4_a_job_ends_after_crashes_between_writes_without_repeated_effects() {
    let mut interrupted = 0;
    for first in 0.. {
        let mut died = false;
        for second in 0.. {
            let fixture = Fixture::new(two_batches);
            died = run_until_death(&fixture, first);
            if !died || !run_until_death(&fixture, second) {
                break;
            }
            fixture.finish();
            let (case, results) = (format!("crashes after {first} and {second} writes"), results(&fixture));
            assert_eq!(fixture.status(), JobStatus::Succeeded, "{case}");
            assert_eq!(results.len(), 4, "{case}: every call has a result");
            for (id_ref, name) in [("a", "pure"), ("b", "effect"), ("c", "pure"), ("d", "effect")] {
                let runs = fixture.tools.runs().iter().filter(|run| run.id_ref == id_ref).count();
                let result = &results[id_ref];
                assert!(name == "pure" || runs <= 1, "{case}: {id_ref} had its effect {runs} times");
                if result == INTERRUPTED {
                    assert_eq!(name, "effect", "{case}: {id_ref} could have been made again");
                    interrupted += 1;
                } else {
                    assert_eq!(*result, format!("ran {id_ref}"), "{case}");
                    assert!(runs >= 1, "{case}: {id_ref} has a result and never ran");
                }
            }
        }
        if !died {
            assert!(first > 10, "the run was cut everywhere, not at {first} points");
            break;
        }
    }
    assert!(interrupted > 0, "some crash hit an effect");
}
