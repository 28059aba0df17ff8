//! The time zones of the IANA database, by name. They are part of the binary, because the host may
//! have other zones or none.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| ZONES.available().map(|name| name.to_string()).collect());

/// The zone of this name, in capitals or not.
pub fn zone(name: &str) -> Option<TimeZone> {
    ZONES.get(name).ok()
}

/// The names of all zones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn every_zone_of_the_database_is_found_in_any_case() {
        let mut count = 0;
        for name in names() {
            let found = zone(name).expect(name);
            assert_eq!(found.iana_name(), Some(name));
            assert_eq!(zone(&name.to_ascii_uppercase()), Some(found), "{name}");
            count += 1;
        }
        assert!(count > 500, "the database has {count} zones");
    }

    #[test]
    fn a_zone_applies_daylight_saving_and_unknown_names_are_refused() {
        let berlin = zone("Europe/Berlin").expect("a zone");
        for (month, hours) in [(1, 1), (7, 2)] {
            let noon = date(2030, month, 1).at(12, 0, 0, 0).to_zoned(berlin.clone()).expect("a time");
            assert_eq!(noon.offset().seconds(), hours * 3_600);
        }
        assert_eq!(zone("utc"), Some(TimeZone::UTC));
        for bad in ["", "Europe", "Europe/Berlin ", "Nowhere/Land", "Ünder"] {
            assert_eq!(zone(bad), None, "{bad}");
        }
    }
}
