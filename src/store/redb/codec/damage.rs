//! The damage that this process has found in the store. Each place is logged once; metrics and readiness
//! report it until the process ends, and rows that were set aside also after that.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum places that are remembered; further ones are only logged.
const MAX_PLACES: usize = 1_000;

/// Damaged places of one store.
#[derive(Debug, Default)]
pub(crate) struct DamageReport {
    places: Mutex<DamagedPlaces>,
    has_short_tables: AtomicBool,
}

#[derive(Debug, Default)]
struct DamagedPlaces {
    found: BTreeSet<String>,
    /// Tables that lack rows.
    short_tables: BTreeSet<&'static str>,
    /// Rows that lay in the table `quarantine` when the store was opened.
    set_aside: u64,
}

impl DamageReport {
    /// Adds a place. Returns whether it is new.
    pub(crate) fn add(&self, place: String) -> bool {
        let mut places = self.lock();
        if places.found.contains(&place) {
            return false;
        }
        if places.found.len() < MAX_PLACES {
            places.found.insert(place);
        }
        true
    }

    /// Adds a table that lacks rows: that a row is absent from it means nothing.
    pub(crate) fn add_short_table(&self, table: &'static str) {
        self.lock().short_tables.insert(table);
        self.has_short_tables.store(true, Ordering::Release);
    }

    /// Whether the table is known to lack rows.
    pub(crate) fn is_short(&self, table: &str) -> bool {
        self.has_short_tables.load(Ordering::Acquire) && self.lock().short_tables.contains(table)
    }

    /// Counts rows that earlier processes have set aside.
    pub(crate) fn count_set_aside(&self, rows: u64) {
        self.lock().set_aside = rows;
    }

    /// Damaged places, those that were set aside earlier included.
    pub(crate) fn count(&self) -> u64 {
        let places = self.lock();
        places.set_aside.saturating_add(places.found.len() as u64)
    }

    /// One of the places that this process has found.
    pub(crate) fn example(&self) -> Option<String> {
        self.lock().found.first().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, DamagedPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_damage_is_reported_once_and_remembered_within_bounds() {
        let report = DamageReport::default();
        assert_eq!((report.count(), report.example()), (0, None));
        assert!(report.add("jobs 01".to_owned()));
        assert!(!report.add("jobs 01".to_owned()));
        report.count_set_aside(2);
        assert_eq!((report.count(), report.example().as_deref()), (3, Some("jobs 01")));
        assert!(!report.is_short("jobs"));
        report.add_short_table("jobs");
        assert!(report.is_short("jobs") && !report.is_short("log"));
        assert!((0..5_000).all(|n| report.add(format!("log {n}"))));
        assert_eq!(report.count(), 2 + MAX_PLACES as u64);
    }
}
