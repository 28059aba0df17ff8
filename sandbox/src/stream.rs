//! What came through one pipe, within its cap: the beginning alone, or beginning and end with a gap between.

use std::collections::VecDeque;

/// Which part of too long an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The beginning: one byte more ends the run.
    Head,
    /// Half from the beginning and half from the end: a command runs on.
    HeadAndTail,
}

/// One output, or one half of a report.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    keep: Keep,
    head_bytes: usize,
    tail_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Stream {
    /// An empty one that keeps at most `cap` bytes.
    pub(crate) fn new(cap: usize, keep: Keep) -> Self {
        let tail_bytes = if keep == Keep::HeadAndTail { cap / 2 } else { 0 };
        let head_bytes = cap - tail_bytes;
        Self { keep, head_bytes, tail_bytes, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    /// How many bytes it keeps at most.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn cap(&self) -> usize {
        self.head_bytes + self.tail_bytes
    }

    /// Takes what was read.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let room = self.head_bytes.saturating_sub(self.head.len());
        let (first, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(first);
        if self.tail_bytes == 0 {
            self.leave_out(rest.len());
            return;
        }
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.tail_bytes);
        self.tail.drain(..surplus);
        self.leave_out(surplus);
    }

    fn leave_out(&mut self, count: usize) {
        self.left_out = self.left_out.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// How much more is worth reading at once.
    pub(crate) fn appetite(&self, chunk_bytes: usize) -> usize {
        match self.keep {
            Keep::Head => chunk_bytes.min(self.head_bytes.saturating_sub(self.head.len()) + 1),
            Keep::HeadAndTail => chunk_bytes,
        }
    }

    /// Whether something is missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.left_out > 0
    }

    /// Whether nothing more of it is wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.keep == Keep::Head && self.is_cut()
    }

    /// The bytes of the beginning: all of them, unless an end is kept, too.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// All of it as text, invalid UTF-8 replaced. A character cut in two by the cap is dropped.
    pub(crate) fn into_text(self) -> String {
        let (mut head, tail) = (self.head, Vec::from(self.tail));
        if self.left_out == 0 {
            head.extend(tail);
            return String::from_utf8_lossy(&head).into_owned();
        }
        if let Err(error) = std::str::from_utf8(&head)
            && error.error_len().is_none()
        {
            head.truncate(error.valid_up_to());
        }
        let head = String::from_utf8_lossy(&head);
        if self.keep == Keep::Head {
            return head.into_owned();
        }
        let continues = |byte: &&u8| **byte & 0xc0 == 0x80;
        let broken = tail.iter().take(3).take_while(continues).count();
        let tail = String::from_utf8_lossy(tail.get(broken..).unwrap_or_default());
        format!("{head}\n… {} bytes left out …\n{tail}", self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(cap: usize, keep: Keep, chunks: &[&str]) -> Stream {
        let mut stream = Stream::new(cap, keep);
        for chunk in chunks {
            stream.push(chunk.as_bytes());
        }
        stream
    }

    #[test]
    fn what_fits_is_kept_whole() {
        for keep in [Keep::Head, Keep::HeadAndTail] {
            let whole = stream(8, keep, &["abc", "defgh"]);
            assert!(!whole.is_cut());
            assert_eq!(whole.into_text(), "abcdefgh");
        }
    }

    #[test]
    fn a_beginning_ends_at_its_cap() {
        let cut = stream(4, Keep::Head, &["abc", "def"]);
        assert!(cut.is_full() && cut.is_cut());
        assert_eq!(cut.into_text(), "abcd");
        assert_eq!(stream(4, Keep::Head, &["abcé"]).into_text(), "abc", "no half character");
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_gap_is_told() {
        let cut = stream(8, Keep::HeadAndTail, &["abcdefgh", "0123456789", "é"]);
        assert!(!cut.is_full() && cut.is_cut());
        assert_eq!(cut.into_text(), "abcd\n… 12 bytes left out …\n89é");
        let split = stream(6, Keep::HeadAndTail, &["abéxyz0éé"]);
        assert_eq!(
            split.into_text(),
            "ab\n… 6 bytes left out …\né",
            "half characters are dropped on both sides"
        );
    }
}
