//! The captured content of one pipe, up to a limit: the beginning, or the beginning and the end.

use std::collections::VecDeque;

/// Which part of a too long output is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputRetention {
    /// The beginning. Exceeding the limit ends the run.
    Head,
    /// Half from the beginning and half from the end. The command continues.
    HeadAndTail,
}

/// One output, or one report pipe.
#[derive(Clone, Debug)]
pub(crate) struct CapturedOutput {
    retention: OutputRetention,
    head_bytes: usize,
    tail_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped_bytes: u64,
}

impl CapturedOutput {
    /// Stores at most `cap` bytes.
    pub(crate) fn new(cap: usize, retention: OutputRetention) -> Self {
        let tail_bytes = if retention == OutputRetention::HeadAndTail { cap / 2 } else { 0 };
        let head_bytes = cap - tail_bytes;
        Self { retention, head_bytes, tail_bytes, head: Vec::new(), tail: VecDeque::new(), dropped_bytes: 0 }
    }

    /// The maximal number of stored bytes.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn cap(&self) -> usize {
        self.head_bytes + self.tail_bytes
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let free_bytes = self.head_bytes.saturating_sub(self.head.len());
        let (first, rest) = chunk.split_at(free_bytes.min(chunk.len()));
        self.head.extend_from_slice(first);
        if self.tail_bytes == 0 {
            self.count_dropped(rest.len());
            return;
        }
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(self.tail_bytes);
        self.tail.drain(..surplus);
        self.count_dropped(surplus);
    }

    fn count_dropped(&mut self, count: usize) {
        self.dropped_bytes = self.dropped_bytes.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// How many bytes the next read should return at most.
    pub(super) fn wanted_bytes(&self, chunk_bytes: usize) -> usize {
        match self.retention {
            OutputRetention::Head => chunk_bytes.min(self.head_bytes.saturating_sub(self.head.len()) + 1),
            OutputRetention::HeadAndTail => chunk_bytes,
        }
    }

    /// Whether bytes were dropped.
    pub(crate) fn is_cut(&self) -> bool {
        self.dropped_bytes > 0
    }

    /// Whether the limit ends the run.
    pub(crate) fn is_full(&self) -> bool {
        self.retention == OutputRetention::Head && self.is_cut()
    }

    /// The stored bytes of the beginning.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The output as text, with invalid UTF-8 replaced. A character that the limit splits is dropped.
    pub(crate) fn into_text(self) -> String {
        let (mut head, tail) = (self.head, Vec::from(self.tail));
        if self.dropped_bytes == 0 {
            head.extend(tail);
            return String::from_utf8_lossy(&head).into_owned();
        }
        if let Err(error) = std::str::from_utf8(&head)
            && error.error_len().is_none()
        {
            head.truncate(error.valid_up_to());
        }
        let head = String::from_utf8_lossy(&head);
        if self.retention == OutputRetention::Head {
            return head.into_owned();
        }
        let continues = |byte: &&u8| **byte & 0xc0 == 0x80;
        let broken = tail.iter().take(3).take_while(continues).count();
        let tail = String::from_utf8_lossy(tail.get(broken..).unwrap_or_default());
        format!("{head}\n… {} bytes left out …\n{tail}", self.dropped_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(cap: usize, retention: OutputRetention, chunks: &[&str]) -> CapturedOutput {
        let mut output = CapturedOutput::new(cap, retention);
        for chunk in chunks {
            output.push(chunk.as_bytes());
        }
        output
    }

    #[test]
    fn a_short_output_is_kept_completely() {
        for retention in [OutputRetention::Head, OutputRetention::HeadAndTail] {
            let whole = output(8, retention, &["abc", "defgh"]);
            assert!(!whole.is_cut());
            assert_eq!(whole.into_text(), "abcdefgh");
        }
    }

    #[test]
    fn a_kept_head_ends_at_its_limit_between_characters() {
        let cut = output(4, OutputRetention::Head, &["abc", "def"]);
        assert!(cut.is_full() && cut.is_cut());
        assert_eq!(cut.into_text(), "abcd");
        assert_eq!(output(4, OutputRetention::Head, &["abcé"]).into_text(), "abc", "no half character");
    }

    #[test]
    fn head_and_tail_are_kept_and_the_gap_is_shown() {
        let cut = output(8, OutputRetention::HeadAndTail, &["abcdefgh", "0123456789", "é"]);
        assert!(!cut.is_full() && cut.is_cut());
        assert_eq!(cut.into_text(), "abcd\n… 12 bytes left out …\n89é");
        let split = output(6, OutputRetention::HeadAndTail, &["abéxyz0éé"]);
        assert_eq!(
            split.into_text(),
            "ab\n… 6 bytes left out …\né",
            "half characters are dropped on both sides"
        );
    }
}
