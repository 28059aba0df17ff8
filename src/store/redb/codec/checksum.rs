//! The checksum behind each stored value: CRC-32C of table, key and value. It also finds a row that a damaged
//! page shows under another key or in another table.

/// The checksum, bytes, little endian.
pub(crate) const BYTES: usize = 4;

/// The value as it is stored.
pub(crate) fn seal(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len().saturating_add(BYTES));
    stored.extend_from_slice(value);
    stored.extend_from_slice(&checksum(table, key, value));
    stored
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
        }
    }
}
