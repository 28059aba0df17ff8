//! The text format of `COPY`: a line a row, a tab between two columns, `\N` for NULL.

use crate::ports::StoreError;
use crate::store::rows::transfer::text_row::TextRow;

/// Appends a row.
pub(crate) fn write_row(row: &TextRow, out: &mut Vec<u8>) {
    for (at, cell) in row.0.iter().enumerate() {
        if at > 0 {
            out.push(b'\t');
        }
        let Some(text) = cell else {
            out.extend_from_slice(b"\\N");
            continue;
        };
        for byte in text.bytes() {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                _ => out.push(byte),
            }
        }
    }
    out.push(b'\n');
}

/// Reads a line without its end.
pub(crate) fn read_row(line: &[u8]) -> Result<TextRow, StoreError> {
    line.split(|byte| *byte == b'\t').map(read_cell).collect::<Result<_, _>>().map(TextRow)
}

fn read_cell(cell: &[u8]) -> Result<Option<String>, StoreError> {
    if cell == b"\\N" {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(cell.len());
    let mut bytes = cell.iter().copied();
    while let Some(byte) = bytes.next() {
        text.push(match (byte, byte == b'\\') {
            (_, true) => match bytes.next() {
                Some(b'b') => 8,
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'v') => 11,
                Some(b'f') => 12,
                Some(b'r') => b'\r',
                Some(other) => other,
                None => b'\\',
            },
            (byte, false) => byte,
        });
    }
    String::from_utf8(text).map(Some).map_err(|error| StoreError::Corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_round_trip(cells in prop::collection::vec(prop::option::of("[\\x01-\\x7fé\\\\]*"), 1..5)) {
            let row = TextRow(cells);
            let mut line = Vec::new();
            write_row(&row, &mut line);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(read_row(&line).unwrap(), row);
        }
    }

    #[test]
    fn escapes_of_the_server_are_read() {
        let row = read_row(br"a\bb\fc\vd	\N	").unwrap();
        assert_eq!(row.0, [Some("a\u{8}b\u{c}c\u{b}d".to_owned()), None, Some(String::new())]);
    }
}
