//! Splits a body into numbered lines as it arrives, with a bound on the length of a line.

/// A line longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {number} is longer than limits.body_bytes = {limit} bytes")]
pub(crate) struct LineTooLong {
    /// Counted from 1.
    pub(crate) number: u64,
    /// The bound.
    pub(crate) limit: usize,
}

/// A line that is not blank, with its number in the file, from 1.
pub(crate) type NumberedLine = (u64, Vec<u8>);

/// Splits at line breaks. Blank lines count but are left out; a byte order mark is dropped.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    limit: usize,
    number: u64,
    rest: Vec<u8>,
}

impl LineSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, number: 0, rest: Vec::new() }
    }

    /// Adds bytes and appends each complete line to `lines`.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        lines: &mut Vec<NumberedLine>,
    ) -> Result<(), LineTooLong> {
        while let Some((head, tail)) = split(bytes) {
            self.append(head)?;
            self.close(lines);
            bytes = tail;
        }
        self.append(bytes)
    }

    /// Appends the last line, which may lack a line break.
    pub(crate) fn finish(&mut self, lines: &mut Vec<NumberedLine>) {
        if !self.rest.is_empty() {
            self.close(lines);
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        if self.rest.len().saturating_add(bytes.len()) > self.limit {
            self.rest.clear();
            return Err(LineTooLong { number: self.number.saturating_add(1), limit: self.limit });
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn close(&mut self, lines: &mut Vec<NumberedLine>) {
        self.number = self.number.saturating_add(1);
        let mut line = std::mem::take(&mut self.rest);
        if self.number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if !line.trim_ascii().is_empty() {
            lines.push((self.number, line));
        }
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((bytes.get(..at)?, bytes.get(at.checked_add(1)?..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(pieces: &[&[u8]], limit: usize) -> Result<Vec<NumberedLine>, LineTooLong> {
        let (mut cutter, mut lines) = (LineSplitter::new(limit), Vec::new());
        pieces.iter().try_for_each(|piece| cutter.push(piece, &mut lines))?;
        cutter.finish(&mut lines);
        Ok(lines)
    }

    #[test]
    fn blank_lines_count_and_a_byte_order_mark_is_dropped() {
        let lines = cut(&[b"\xef\xbb\xbf{}\r\n\r\n  \n[]"], 99).unwrap();
        assert_eq!(lines, [(1, b"{}\r".to_vec()), (4, b"[]".to_vec())]);
        assert_eq!(cut(&[], 9), Ok(vec![]));
    }

    #[test]
    fn p8_an_oversized_line_is_refused_by_number_before_it_is_complete() {
        assert_eq!(cut(&[b"ok\n", b"12345", b"67890"], 8), Err(LineTooLong { number: 2, limit: 8 }));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_lines(text in "[a\\n\\r ]{0,60}", at in 0_usize..60) {
            let at = at.min(text.len());
            let (head, tail) = text.as_bytes().split_at(at);
            let whole = cut(&[text.as_bytes()], 100).unwrap();
            prop_assert_eq!(cut(&[head, tail], 100).unwrap(), whole.clone());
            let plain: Vec<NumberedLine> = text
                .split('\n')
                .zip(1..)
                .filter(|(line, _)| !line.trim_ascii().is_empty())
                .map(|(line, number)| (number, line.as_bytes().to_vec()))
                .collect();
            prop_assert_eq!(whole, plain);
        }
    }
}
