//! Settings of the cluster: the first node decides.

use super::fixture::Fixture;
use std::sync::Arc;

#[test]
fn the_first_value_of_a_setting_wins_on_all_nodes() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.beside();
    assert_eq!(fixture.store.setting_or_insert("key", "one").unwrap(), "one");
    assert_eq!(other.store.setting_or_insert("key", "two").unwrap(), "one");
    assert_eq!(other.store.setting_or_insert("another", "two").unwrap(), "two");
    assert_eq!(fixture.store.setting_or_insert("another", "one").unwrap(), "two");
}

#[test]
fn nodes_that_ask_at_the_same_time_get_the_same_value() {
    let Some(fixture) = Fixture::new() else { return };
    let other = fixture.beside();
    for round in 0..20 {
        let key = format!("key {round}");
        let values: Vec<String> = std::thread::scope(|scope| {
            let ask = |value: usize| {
                let node = if value.is_multiple_of(2) { &fixture } else { &other };
                let (store, key) = (Arc::clone(&node.store), key.clone());
                scope.spawn(move || store.setting_or_insert(&key, &value.to_string()).unwrap())
            };
            let asked: Vec<_> = (0..4).map(ask).collect();
            asked.into_iter().map(|each| each.join().unwrap()).collect()
        });
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    }
}
