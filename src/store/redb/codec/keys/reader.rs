//! The parts of keys: joins them, and defines keys as structs of parts.

use crate::domain::id::{BatchId, DeliveryId, FileId, JobId, ScheduleId, UserId};

pub(crate) fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    debug_assert_eq!(parts.iter().map(|p| p.len()).sum::<usize>(), N, "parts fill the key");
    let mut out = [0; N];
    for (slot, byte) in out.iter_mut().zip(parts.iter().copied().flatten()) {
        *slot = *byte;
    }
    out
}

/// The first and the last key with an id at the end: `key` makes the one of an id's bits.
pub(crate) fn id_ends<K>(key: impl Fn(u128) -> K) -> (K, K) {
    (key(u128::MIN), key(u128::MAX))
}

/// Reads a key from the front. Keys are arrays, so their widths are known: reading past the end is a fault of
/// the code.
pub(crate) struct KeyReader<'a>(pub(crate) &'a [u8]);

impl KeyReader<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.0.split_first_chunk() else {
            unreachable!("a key is read past its end")
        };
        self.0 = rest;
        *head
    }

    pub(crate) fn part<P: KeyPart>(&mut self) -> P {
        P::read(self)
    }
}

/// A part of a key, big endian, so that bytes sort as the values do.
pub(crate) trait KeyPart: Copy {
    fn bytes(self) -> impl AsRef<[u8]>;
    fn read(reader: &mut KeyReader<'_>) -> Self;
}

macro_rules! key_parts {
    ($($part:ty: |$value:ident| $bytes:expr, |$taken:ident| $read:expr;)*) => {$(
        impl KeyPart for $part {
            fn bytes(self) -> impl AsRef<[u8]> {
                let $value = self;
                $bytes
            }

            fn read(reader: &mut KeyReader<'_>) -> Self {
                let $taken = reader.take();
                $read
            }
        }
    )*};
}
key_parts! {
    u8: |number| number.to_be_bytes(), |bytes| u8::from_be_bytes(bytes);
    u32: |number| number.to_be_bytes(), |bytes| u32::from_be_bytes(bytes);
    u64: |number| number.to_be_bytes(), |bytes| u64::from_be_bytes(bytes);
    [u8; 16]: |id| id, |bytes| bytes;
    [u8; 32]: |digest| digest, |bytes| bytes;
    UserId: |user| user.0.to_be_bytes(), |bytes| UserId(u32::from_be_bytes(bytes));
    BatchId: |id| id.to_bytes(), |bytes| BatchId::from_bytes(bytes);
    FileId: |id| id.to_bytes(), |bytes| FileId::from_bytes(bytes);
    DeliveryId: |id| id.to_bytes(), |bytes| DeliveryId::from_bytes(bytes);
    JobId: |id| id.to_bytes(), |bytes| JobId::from_bytes(bytes);
    ScheduleId: |id| id.to_bytes(), |bytes| ScheduleId::from_bytes(bytes);
}

/// Defines a key as a struct of [`KeyPart`]s, and the array that it is stored as.
macro_rules! key {
    ($(#[$doc:meta])* $key:ident, $bytes:ident = $width:literal { $($(#[$part_doc:meta])* $part:ident: $type:ty,)* }) => {
        #[doc = concat!("Bytes of a [`", stringify!($key), "`].")]
        pub(crate) type $bytes = [u8; $width];

        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $key {
            $($(#[$part_doc])* pub(crate) $part: $type,)*
        }

        impl $key {
            pub(crate) fn encode(self) -> $bytes {
                join(&[$(KeyPart::bytes(self.$part).as_ref()),*])
            }

            pub(crate) fn decode(bytes: &$bytes) -> Self {
                let mut reader = KeyReader(bytes);
                Self { $($part: reader.part(),)* }
            }
        }
    };
}
pub(crate) use key;
