//! Joins the parts of a key and takes them apart again.

pub(crate) fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    debug_assert_eq!(parts.iter().map(|p| p.len()).sum::<usize>(), N, "parts fill the key");
    let mut out = [0; N];
    for (slot, byte) in out.iter_mut().zip(parts.iter().copied().flatten()) {
        *slot = *byte;
    }
    out
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

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}
