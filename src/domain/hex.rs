//! Bytes as lower-case hexadecimal digits, and back.

/// The digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// The bytes of exactly this many lower-case digits.
pub fn hex_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_lower_case_and_read_back() {
        assert_eq!(hex(&[0, 10, 0xff]), "000aff");
        assert_eq!(hex_bytes("000aff"), Some([0, 10, 0xff]));
        for wrong in ["000aF0", "000af", "000aff00", "000a f", "é0aff"] {
            assert_eq!(hex_bytes::<3>(wrong), None, "{wrong}");
        }
    }
}
