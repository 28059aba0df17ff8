//! How keys and values of tables become bytes.

use crate::store::redb::codec::lazy_table::RawBytes;

/// The type of a key or a value.
pub(crate) trait TableCodec: 'static {
    /// The value in memory.
    type Ref<'a>;
    /// Its bytes.
    type Encoded<'a>: AsRef<[u8]>;
    /// Whether values of this type are data, and not entries of an index.
    const IS_DATA: bool = false;

    /// The value of these bytes; `None`: they are not a value of this type.
    fn decode(bytes: &[u8]) -> Option<Self::Ref<'_>>;
    /// The bytes of the value.
    fn encode<'a>(value: &'a Self::Ref<'_>) -> Self::Encoded<'a>;
}

impl TableCodec for RawBytes {
    type Ref<'a> = &'a [u8];
    type Encoded<'a> = &'a [u8];
    const IS_DATA: bool = true;

    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }
    fn encode<'a>(value: &'a &[u8]) -> &'a [u8] {
        value
    }
}

impl<const N: usize> TableCodec for &'static [u8; N] {
    type Ref<'a> = &'a [u8; N];
    type Encoded<'a> = &'a [u8];

    fn decode(bytes: &[u8]) -> Option<&[u8; N]> {
        bytes.try_into().ok()
    }
    fn encode<'a>(value: &'a &[u8; N]) -> &'a [u8] {
        value.as_slice()
    }
}

impl TableCodec for &'static str {
    type Ref<'a> = &'a str;
    type Encoded<'a> = &'a [u8];

    fn decode(bytes: &[u8]) -> Option<&str> {
        str::from_utf8(bytes).ok()
    }
    fn encode<'a>(value: &'a &str) -> &'a [u8] {
        value.as_bytes()
    }
}

impl TableCodec for () {
    type Ref<'a> = ();
    type Encoded<'a> = [u8; 0];

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
    fn encode((): &()) -> [u8; 0] {
        []
    }
}

/// Little endian. No key is a number.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl TableCodec for $number {
            type Ref<'a> = Self;
            type Encoded<'a> = [u8; size_of::<Self>()];

            fn decode(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
            fn encode(value: &Self) -> [u8; size_of::<Self>()] {
                value.to_le_bytes()
            }
        }
    )*};
}

numbers!(u32, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_values_are_encoded_like_redb_values() {
        for number in [0, 1, 0x0102_0304, u32::MAX] {
            assert_eq!(u32::encode(&number), <u32 as redb::Value>::as_bytes(&number));
            let large = u64::from(number) << 16;
            assert_eq!(u64::encode(&large), <u64 as redb::Value>::as_bytes(&large));
            assert_eq!(u32::decode(&u32::encode(&number)), Some(number));
            assert_eq!(u64::decode(&u64::encode(&large)), Some(large));
        }
        assert_eq!(<&str>::encode(&"é\0"), <&str as redb::Value>::as_bytes(&"é\0").as_bytes());
        assert_eq!(<&[u8; 3]>::decode(&[1, 2, 3]), Some(&[1, 2, 3]));
    }

    #[test]
    fn bytes_of_a_wrong_width_do_not_decode() {
        assert_eq!((u32::decode(&[0; 3]), u64::decode(&[0; 9])), (None, None));
        assert_eq!((<&[u8; 3]>::decode(&[0; 2]), <&[u8; 3]>::decode(&[0; 4])), (None, None));
        assert_eq!((<&str>::decode(&[0xff]), <()>::decode(&[0])), (None, None));
    }
}
