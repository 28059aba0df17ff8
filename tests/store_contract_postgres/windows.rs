//! Events of all nodes in windows of time.

use super::fixture::Fixture;
use nanoclaw::ports::{CountedEvents, RateWindow, RateWindows};
use std::sync::Arc;

fn logins(owner: &str, limit: u64) -> RateWindow<'_> {
    RateWindow { name: "login", owner, window_ms: 1_000, limit }
}

impl Fixture {
    /// Counts an event. The rest of a full window, milliseconds; `None` if the event was counted.
    fn count(&self, window: &RateWindow<'_>) -> Option<u64> {
        let found = self.store.count(window, 1).unwrap();
        (found.counted == 0).then_some(found.left_ms)
    }
}

#[test]
fn a_window_starts_at_its_first_event_and_has_a_fixed_length() {
    let Some(fixture) = Fixture::new() else { return };
    let count = |after_ms| {
        fixture.clock.advance(after_ms);
        fixture.count(&logins("ann", 2))
    };
    assert_eq!(count(0), None);
    assert_eq!(count(600), None, "the second event does not extend the window");
    assert_eq!(count(100), Some(300));
    assert_eq!(count(299), Some(1), "refused events do not extend it either");
    assert_eq!(count(1), None);
    assert_eq!(count(100), None);
    assert_eq!(count(100), Some(800));
}

#[test]
fn windows_of_names_and_owners_are_separate_and_a_limit_of_zero_admits_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    let count = |window: RateWindow<'_>| fixture.count(&window);
    assert_eq!(count(logins("ann", 1)), None);
    assert_eq!(count(logins("ann", 1)), Some(1_000));
    assert_eq!(count(logins("bob", 1)), None);
    assert_eq!(count(RateWindow { name: "request", ..logins("ann", 1) }), None);
    assert_eq!(count(logins("carl", 0)), Some(1_000));
    assert_eq!(count(logins("ann", 2)), None, "a raised limit holds at once");
    assert_eq!(count(RateWindow { window_ms: u64::MAX, ..logins("dora", u64::MAX) }), None);
    assert_eq!(count(RateWindow { window_ms: u64::MAX, ..logins("dora", u64::MAX) }), None);
}

#[test]
fn an_owner_may_be_long_and_contain_any_characters() {
    let Some(fixture) = Fixture::new() else { return };
    let long = "o".repeat(100_000);
    for owner in ["", "a\0b", "a\0", "é\"'\\\n", &long, &format!("{long}o")] {
        let count = || fixture.count(&logins(owner, 1));
        assert_eq!((count(), count()), (None, Some(1_000)));
        assert!(fixture.store.is_open(&logins(owner, 1)).unwrap());
        fixture.store.forget(&logins(owner, 1)).unwrap();
        assert!(!fixture.store.is_open(&logins(owner, 1)).unwrap());
    }
}

#[test]
fn many_events_are_counted_as_far_as_they_fit_and_one_can_be_taken_back() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.beside();
    let count = |node: &Fixture, events| node.store.count(&logins("ann", 10), events).unwrap();
    let counted = |counted, total| CountedEvents { counted, total, left_ms: 1_000 };
    assert_eq!(count(&fixture, 4), counted(4, 4));
    assert_eq!(count(&other, 4), counted(4, 8));
    assert_eq!(count(&fixture, 4), counted(2, 10));
    assert_eq!(count(&other, 4), counted(0, 10));
    other.store.uncount(&logins("ann", 10)).unwrap();
    assert_eq!(count(&fixture, 4), counted(1, 10));
    fixture.store.forget(&logins("ann", 10)).unwrap();
    fixture.store.uncount(&logins("ann", 10)).unwrap();
    assert_eq!(count(&fixture, 4), counted(4, 4));
}

#[test]
fn p8_expired_windows_are_removed_in_passing() {
    let Some(fixture) = Fixture::new() else { return };
    for number in 0..40 {
        fixture.count(&logins(&number.to_string(), 1));
    }
    assert_eq!(fixture.sql("SELECT count(*) FROM windows"), "40");
    fixture.clock.advance(1_000);
    for _ in 0..2 {
        fixture.count(&logins("ann", 9));
    }
    assert_eq!(fixture.sql("SELECT owner, count FROM windows"), "ann|2");
}

#[test]
fn p8_events_of_several_nodes_at_once_never_exceed_the_limit() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.beside();
    for round in 0..10 {
        let owner = format!("ann {round}");
        let counted: u64 = std::thread::scope(|scope| {
            let attempt = |number: usize| {
                let node = if number.is_multiple_of(2) { &fixture } else { &other };
                let (store, owner) = (Arc::clone(&node.store), owner.clone());
                scope.spawn(move || store.count(&logins(&owner, 5), 1).unwrap())
            };
            let attempts: Vec<_> = (0..12).map(attempt).collect();
            attempts.into_iter().map(|each| each.join().unwrap().counted).sum()
        });
        assert_eq!(counted, 5);
    }
}
