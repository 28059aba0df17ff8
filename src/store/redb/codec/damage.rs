//! The damage that this process has found in the store. Each place is logged once; metrics and readiness
//! report it until the process ends, and rows that were set aside also after that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum places that are remembered; further ones are only logged.
const MAX_PLACES: usize = 1_000;

/// Damaged places of one store.
#[derive(Debug, Default)]
pub(crate) struct DamageReport {
    places: Mutex<DamagedPlaces>,
    has_hidden_rows: AtomicBool,
}

/// A range of keys.
pub(crate) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Where a row stands that a lookup by its key may miss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenRow {
    /// Between the intact rows before and behind it.
    pub(crate) between: KeyRange,
    /// Its key, if that is known.
    pub(crate) key: Option<Vec<u8>>,
}

impl HiddenRow {
    fn may_have(&self, key: &Vec<u8>) -> bool {
        self.key.as_ref().map_or_else(|| self.between.contains(key), |own| own == key)
    }

    /// Whether a read of this range may miss the row: one that begins and ends elsewhere meets it.
    fn may_miss(&self, range: &KeyRange) -> bool {
        let is_inside = |end: &Bound<Vec<u8>>| match end {
            Bound::Included(key) | Bound::Excluded(key) => self.between.contains(key),
            Bound::Unbounded => false,
        };
        self.key.as_ref().is_none_or(|key| range.contains(key))
            && (is_inside(&range.0) || is_inside(&range.1))
    }
}

#[derive(Debug, Default)]
struct DamagedPlaces {
    found: BTreeSet<String>,
    /// Tables that lack rows.
    short_tables: BTreeSet<&'static str>,
    hidden: BTreeMap<&'static str, Vec<HiddenRow>>,
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
        self.has_hidden_rows.store(true, Ordering::Release);
    }

    /// Adds a row of this table that lookups may miss.
    pub(crate) fn add_hidden_row(&self, table: &'static str, row: HiddenRow) {
        self.lock().hidden.entry(table).or_default().push(row);
        self.has_hidden_rows.store(true, Ordering::Release);
    }

    /// Whether a row of this key, which was not found, may be there.
    pub(crate) fn may_have(&self, table: &str, key: &[u8]) -> bool {
        self.is_hidden(table, |row| row.may_have(&key.to_vec()))
    }

    /// Whether a read of these keys may miss rows.
    pub(crate) fn may_miss(&self, table: &str, (low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
        self.is_hidden(table, |row| row.may_miss(&(low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec))))
    }

    fn is_hidden(&self, table: &str, is_one: impl Fn(&HiddenRow) -> bool) -> bool {
        if !self.has_hidden_rows.load(Ordering::Acquire) {
            return false;
        }
        let places = self.lock();
        places.short_tables.contains(table)
            || places.hidden.get(table).is_some_and(|rows| rows.iter().any(is_one))
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
        assert!((0..5_000).all(|n| report.add(format!("log {n}"))));
        assert_eq!(report.count(), 2 + MAX_PLACES as u64);
    }

    #[test]
    fn only_reads_that_may_miss_a_hidden_row_are_refused() {
        let report = DamageReport::default();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let from = |low: &'static [u8], high: &'static [u8]| (Bound::Included(low), Bound::Included(high));
        assert!(!report.may_have("jobs", b"k") && !report.may_miss("jobs", all));
        let between = (Bound::Excluded(b"c".to_vec()), Bound::Excluded(b"k".to_vec()));
        report.add_hidden_row("jobs", HiddenRow { between: between.clone(), key: None });
        report.add_hidden_row("specs", HiddenRow { between, key: Some(b"e".to_vec()) });
        for (key, in_jobs, in_specs) in [(b"c", false, false), (b"e", true, true), (b"f", true, false)] {
            assert_eq!((report.may_have("jobs", key), report.may_have("specs", key)), (in_jobs, in_specs));
        }
        for (range, in_jobs, in_specs) in [
            (all, false, false), // it meets the damaged row
            (from(b"a", b"z"), false, false),
            (from(b"d", b"z"), true, true),
            (from(b"f", b"z"), true, false),
            (from(b"a", b"f"), true, true),
            (from(b"k", b"z"), false, false),
        ] {
            assert_eq!(
                (report.may_miss("jobs", range), report.may_miss("specs", range)),
                (in_jobs, in_specs)
            );
        }
        report.add_short_table("log");
        assert!(
            report.may_have("log", b"a") && report.may_miss("log", all) && !report.may_miss("users", all)
        );
    }
}
