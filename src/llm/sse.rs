//! Parses server-sent events incrementally, by the rules of the HTML standard. Lines and events have a size
//! limit.

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field; `message` when the stream names none.
    pub name: String,
    /// The `data:` lines, joined by `\n`.
    pub data: String,
    /// The last `id:` of the stream so far, as `Last-Event-ID` would carry it.
    pub id: Option<String>,
}

/// Why a stream cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line, or the data of one event, exceeds the limit.
    #[error("an event of the stream is longer than {limit} bytes")]
    TooLong {
        /// The bound.
        limit: usize,
    },
}

/// The byte order mark that may open a stream.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Turns bytes into events, however the bytes are split. It holds at most one line and one event.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    line: Vec<u8>,
    fresh: bool,
    after_cr: bool,
    name: String,
    data: String,
    has_data: bool,
    id: Option<String>,
    retry_ms: Option<u64>,
}

impl SseParser {
    /// A parser at the start of a stream. A line and an event have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            fresh: true,
            after_cr: false,
            name: String::new(),
            data: String::new(),
            has_data: false,
            id: None,
            retry_ms: None,
        }
    }

    /// The last `retry:` of the stream, milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Consumes `input` up to the end of the next event; `None` when the input ends first.
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<SseEvent>, SseError> {
        while !input.is_empty() {
            if std::mem::take(&mut self.after_cr) {
                *input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let Some(end) = input.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.keep(input)?;
                *input = &[];
                return Ok(None);
            };
            let (piece, rest) = input.split_at(end);
            self.keep(piece)?;
            self.after_cr = rest.first() == Some(&b'\r');
            *input = rest.get(1..).unwrap_or_default();
            if let Some(event) = self.end_line()? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), SseError> {
        if self.line.len().saturating_add(piece.len()) > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let line = std::mem::take(&mut self.line);
        let bytes =
            if std::mem::take(&mut self.fresh) { line.strip_prefix(BOM).unwrap_or(&line) } else { &line };
        let result = if bytes.is_empty() {
            Ok(self.dispatch())
        } else {
            self.take_field(&String::from_utf8_lossy(bytes)).map(|()| None)
        };
        self.line = line;
        self.line.clear();
        result
    }

    fn take_field(&mut self, line: &str) -> Result<(), SseError> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.data.len().saturating_add(value.len()) > self.limit {
                    return Err(SseError::TooLong { limit: self.limit });
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|b| b.is_ascii_digit()) => {
                self.retry_ms = value.parse().ok().or(self.retry_ms);
            }
            _ => {} // a comment, or a field of a later standard
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let name = if name.is_empty() { "message".to_owned() } else { name };
        Some(SseEvent { name, data: std::mem::take(&mut self.data), id: self.id.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(stream: &[u8], slice: usize) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1 << 16);
        let mut events = Vec::new();
        for mut piece in stream.chunks(slice) {
            while let Some(event) = parser.next_event(&mut piece).expect("within limits") {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn each_call_consumes_the_input_up_to_the_end_of_one_event() {
        let mut parser = SseParser::new(1024);
        let mut input: &[u8] = b"data: a\n\ndata: b\n\nda";
        let mut seen = Vec::new();
        while let Some(event) = parser.next_event(&mut input).expect("within limits") {
            seen.push((event.data, input.len()));
        }
        assert_eq!(seen, [("a".to_owned(), 11), ("b".to_owned(), 2)]);
        assert!(input.is_empty());
    }

    fn event(name: &str, data: &str, id: Option<&str>) -> SseEvent {
        SseEvent { name: name.into(), data: data.into(), id: id.map(Into::into) }
    }

    #[test]
    fn the_fields_of_the_sse_standard_are_parsed() {
        let stream = "\u{feff}: hello\nretry: 1500\nid: 7\nevent: add\ndata: a\ndata:b\n\ndata\n\nid\ndata:  x\n\n: end\n\n";
        let expected = [
            event("add", "a\nb", Some("7")),
            event("message", "", Some("7")),
            event("message", " x", Some("")),
        ];
        for slice in [1, 2, 3, 7, 4096] {
            assert_eq!(read(stream.as_bytes(), slice), expected, "slices of {slice}");
        }
        let mut parser = SseParser::new(100);
        let mut input = stream.as_bytes();
        assert!(parser.next_event(&mut input).expect("reads").is_some());
        assert_eq!(parser.retry_ms(), Some(1500));
    }

    #[test]
    fn every_sse_line_ending_ends_a_line() {
        for stream in ["data: é\n\ndata: 2\n\n", "data: é\r\n\r\ndata: 2\r\n\r\n", "data: é\r\rdata: 2\r\r"]
        {
            for slice in 1..5 {
                let data: Vec<_> = read(stream.as_bytes(), slice).into_iter().map(|e| e.data).collect();
                assert_eq!(data, ["é", "2"], "{stream:?} in slices of {slice}");
            }
        }
    }

    #[test]
    fn an_event_without_an_empty_line_is_dropped() {
        assert_eq!(read(b"data: cut", 3), []);
        assert_eq!(read(b"event: x\n\n", 3), []);
    }

    #[test]
    fn p8_lines_and_events_are_bounded() {
        let long = |stream: &[u8]| {
            let mut parser = SseParser::new(10);
            let mut input = stream;
            parser.next_event(&mut input)
        };
        assert_eq!(long(b"data: 01234567"), Err(SseError::TooLong { limit: 10 }));
        assert_eq!(long(b"data:12345\ndata:12345\ndata:1\n"), Err(SseError::TooLong { limit: 10 }));
        assert_eq!(long(b":2345678\n:2345678\n:2345678\n"), Ok(None));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_result(stream in "(data|id|event|:|\r|\n|\r\n|é| |x){0,40}", slice in 1usize..9) {
            prop_assert_eq!(read(stream.as_bytes(), slice), read(stream.as_bytes(), usize::MAX));
        }
    }
}
