//! Events of all nodes in windows of time.

use super::fixture::Fixture;
use nanoclaw::store::postgres::RateWindow;
use std::sync::Arc;

const NOW_MS: u64 = 1_000_000;

fn logins(owner: &str, limit: u64) -> RateWindow<'_> {
    RateWindow { name: "login", owner, window_ms: 1_000, limit }
}

#[test]
fn a_window_starts_at_its_first_event_and_has_a_fixed_length() {
    let Some(fixture) = Fixture::new() else { return };
    let count = |now_ms| fixture.store.count_in_window(&logins("ann", 2), now_ms).unwrap();
    assert_eq!(count(NOW_MS), None);
    assert_eq!(count(NOW_MS + 600), None, "the second event does not extend the window");
    assert_eq!(count(NOW_MS + 700), Some(300));
    assert_eq!(count(NOW_MS + 999), Some(1), "refused events do not extend it either");
    assert_eq!(count(NOW_MS + 1_000), None);
    assert_eq!(count(NOW_MS + 1_100), None);
    assert_eq!(count(NOW_MS + 1_200), Some(800));
}

#[test]
fn windows_of_names_and_owners_are_separate_and_a_limit_of_zero_admits_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    let count = |window: RateWindow<'_>| fixture.store.count_in_window(&window, NOW_MS).unwrap();
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
        let count = || fixture.store.count_in_window(&logins(owner, 1), NOW_MS).unwrap();
        assert_eq!((count(), count()), (None, Some(1_000)));
    }
}

#[test]
fn p8_expired_windows_are_removed_in_passing() {
    let Some(fixture) = Fixture::new() else { return };
    for number in 0..40 {
        fixture.store.count_in_window(&logins(&number.to_string(), 1), NOW_MS).unwrap();
    }
    assert_eq!(fixture.sql("SELECT count(*) FROM windows"), "40");
    for _ in 0..2 {
        fixture.store.count_in_window(&logins("ann", 9), NOW_MS + 1_000).unwrap();
    }
    assert_eq!(fixture.sql("SELECT owner, count FROM windows"), "ann|2");
}

#[test]
fn p8_events_of_several_nodes_at_once_never_exceed_the_limit() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.beside();
    for round in 0..10 {
        let owner = format!("ann {round}");
        let counted: usize = std::thread::scope(|scope| {
            let attempt = |number: usize| {
                let node = if number.is_multiple_of(2) { &fixture } else { &other };
                let (store, owner) = (Arc::clone(&node.store), owner.clone());
                scope.spawn(move || store.count_in_window(&logins(&owner, 5), NOW_MS).unwrap())
            };
            let attempts: Vec<_> = (0..12).map(attempt).collect();
            attempts.into_iter().filter_map(|each| each.join().unwrap().is_none().then_some(())).count()
        });
        assert_eq!(counted, 5);
    }
}
