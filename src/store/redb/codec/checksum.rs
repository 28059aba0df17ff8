//! The checksum behind each stored value: CRC-32C of table, key and value. It also finds a row that a damaged
//! page shows under another key or in another table.

/// The checksum, bytes, little endian.
pub(crate) const BYTES: usize = 4;
/// Of CRC-32C, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The value as it is stored.
pub(crate) fn seal(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len().saturating_add(BYTES));
    stored.extend_from_slice(value);
    seal_in_place(table, key, &mut stored);
    stored
}

/// Turns a value into the stored one.
pub(crate) fn seal_in_place(table: &str, key: &[u8], value: &mut Vec<u8>) {
    let sum = checksum(table, key, value);
    value.extend_from_slice(&sum);
}

/// The value that was stored; `None`: the row is damaged.
pub(crate) fn unseal<'v>(table: &str, key: &[u8], stored: &'v [u8]) -> Option<&'v [u8]> {
    let (value, found) = stored.split_last_chunk()?;
    (*found == checksum(table, key, value)).then_some(value)
}

/// The bytes before the checksum, which is not compared.
pub(crate) fn unchecked(stored: &[u8]) -> &[u8] {
    stored.split_last_chunk::<BYTES>().map_or(stored, |(value, _)| value)
}

/// The key under which a row was stored that now has exactly one flipped bit; `None`: more has changed.
/// A CRC finds that bit: each bit of a row, counted from its end, changes the checksum in its own way.
pub(crate) fn key_before_flip(table: &str, key: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    let (value, found) = stored.split_last_chunk()?;
    let change = u32::from_le_bytes(*found) ^ u32::from_le_bytes(checksum(table, key, value));
    if change.is_power_of_two() {
        return Some(key.to_vec()); // a bit of the checksum
    }
    let mut of_bit = 1;
    for byte in (0..key.len().saturating_add(value.len())).rev() {
        for bit in (0..8).rev() {
            of_bit = if of_bit & 1 == 1 { (of_bit >> 1) ^ POLYNOMIAL } else { of_bit >> 1 };
            if of_bit == change {
                let mut key = key.to_vec();
                key.get_mut(byte).into_iter().for_each(|part| *part ^= 1 << bit);
                return Some(key);
            }
        }
    }
    None
}

/// The width of the key keeps a byte from moving between key and value.
fn checksum(table: &str, key: &[u8], value: &[u8]) -> [u8; BYTES] {
    let sum = crc32c::crc32c(table.as_bytes());
    let sum = crc32c::crc32c_append(sum, &(key.len() as u64).to_le_bytes());
    let sum = crc32c::crc32c_append(sum, key);
    crc32c::crc32c_append(sum, value).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_of_a_row_never_changes() {
        // Stored files depend on it.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(seal("jobs", b"key", b"value"), b"value\x95\xCA\x34\x14");
    }

    #[test]
    fn a_row_in_another_table_or_under_another_key_is_damaged() {
        let stored = seal("jobs", b"key", b"value");
        assert_eq!(unseal("jobs", b"key", &stored), Some(&b"value"[..]));
        assert_eq!(unseal("specs", b"key", &stored), None);
        assert_eq!(unseal("jobs", b"kez", &stored), None);
        assert_eq!(unseal("jobs", b"ke", &seal("jobs", b"key", b"")), None);
        assert_eq!(unseal("jobs", b"key", b"abc"), None, "shorter than a checksum");
    }

    proptest! {
        #[test]
        fn each_flipped_bit_of_a_value_is_found(value: Vec<u8>, bit: prop::sample::Index) {
            let mut stored = seal("log", b"key", &value);
            prop_assert_eq!(unseal("log", b"key", &stored), Some(value.as_slice()));
            let bit = bit.index(stored.len() * 8);
            stored[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(unseal("log", b"key", &stored), None);
            prop_assert_eq!(key_before_flip("log", b"key", &stored), Some(b"key".to_vec()));
        }

        #[test]
        fn the_key_before_one_flipped_bit_is_found(key in "[a-z]{1,40}", value: Vec<u8>, bit: prop::sample::Index) {
            let (key, stored) = (key.as_bytes(), seal("log", key.as_bytes(), &value));
            let mut flipped = key.to_vec();
            let bit = bit.index(key.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = key_before_flip("log", &flipped, &stored);
            prop_assert_eq!(found, Some(key.to_vec()));
            flipped[bit / 8] ^= 1 << ((bit + 3) % 8);
            let found = key_before_flip("log", &flipped, &stored);
            prop_assert_eq!(found, None);
        }
    }
}
