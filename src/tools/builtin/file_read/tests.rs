//! Pages of files: every limit, every encoding, every kind of line end.

use super::*;
use crate::domain::tool::ToolChoice;
use crate::ports::{CancelToken, Clock};
use crate::tools::testing::{context, deps};
use std::io::Write;
use std::time::Duration;

struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

fn cancel(deadline_ms: u64) -> CancelToken {
    CancelToken::new(Arc::new(Still)).with_deadline(deadline_ms)
}

fn page(first: u64, lines: u64) -> LinePage {
    let programs = FilePrograms::of(deps().code.as_ref(), &context(ToolChoice::All(true)));
    LinePage { path: "f".into(), size: 0, first, lines, max_json_chars: 15_000, is_hashed: true, programs }
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    file.rewind().expect("rewound");
    file
}

fn read(bytes: &[u8], page: &LinePage, encoding: Option<&str>) -> Result<Value, String> {
    page.read(file(bytes), encoding, &cancel(1)).map(|(data, _)| data).map_err(|error| error.to_string())
}

fn read_all(bytes: &[u8], encoding: Option<&str>) -> Value {
    read(bytes, &page(1, LINES), encoding).expect("a page")
}

#[test]
fn a_page_reports_its_position_and_the_next_offset() {
    let text: String = (1..=10).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let data = read(text.as_bytes(), &page(3, 2), None).expect("a page");
    assert_eq!(data["content"], "line 3\nline 4\n");
    assert_eq!(
        (&data["start_line"], &data["lines"], &data["total_lines"]),
        (&json!(3), &json!(2), &json!(10))
    );
    assert_eq!((&data["has_more"], &data["next_offset"]), (&json!(true), &json!(5)));
    let last = read(text.as_bytes(), &page(9, 2), None).expect("a page");
    assert_eq!((&last["has_more"], &last["next_offset"]), (&json!(false), &Value::Null));
    let error = read(text.as_bytes(), &page(11, 1), None).expect_err("beyond");
    assert_eq!(error, "offset 11 is beyond the end: 'f' has 10 lines. Use an offset from 1 to 10");
}

#[test]
fn file_pages_are_contiguous_and_within_the_size_limit() {
    let text: String =
        (0..3_000).map(|n| format!("{n} \"é\"\t\\{}\n", "x".repeat(n % 70))).collect::<Vec<_>>().concat();
    let (mut first, mut gathered) = (1, String::new());
    loop {
        let data = read(text.as_bytes(), &page(first, LINES), None).expect("a page");
        assert!(data.to_string().chars().count() < 15_000 + FRAME_CHARS, "{}", data.to_string().len());
        gathered.push_str(data["content"].as_str().expect("a text"));
        let Some(next) = data["next_offset"].as_u64() else { break };
        assert!(next > first);
        first = next;
    }
    assert_eq!(gathered, text);
}

#[test]
fn empty_files_and_a_missing_final_newline_are_handled() {
    let empty = read_all(b"", None);
    assert_eq!(
        (&empty["content"], &empty["total_lines"], &empty["note"]),
        (&json!(""), &json!(0), &json!("The file is empty"))
    );
    assert!(read(b"", &page(2, 1), None).expect_err("beyond").contains("has 0 lines"));
    let open = read_all(b"a\nb", None);
    assert_eq!((&open["content"], &open["total_lines"]), (&json!("a\nb"), &json!(2)));
    assert_eq!(read_all(b"\n\n", None)["total_lines"], 2);
}

#[test]
fn line_endings_are_normalized_and_reported() {
    for (bytes, content, ends) in [
        (&b"a\r\nb\r\n"[..], "a\nb\n", json!("crlf")),
        (b"a\nb\n", "a\nb\n", json!("lf")),
        (b"a\r\nb\n", "a\nb\n", json!("mixed")),
        (b"a\rb", "a\rb", Value::Null),
    ] {
        let data = read_all(bytes, None);
        assert_eq!((&data["content"], &data["line_endings"]), (&json!(content), &ends), "{bytes:?}");
    }
    // The two bytes of one line end in two pieces.
    let split = [vec![b'x'; PIECE_BYTES - 1], b"\r\ny\r\n".to_vec()].concat();
    let data = read(&split, &page(2, 1), None).expect("a page");
    assert_eq!((&data["content"], &data["line_endings"]), (&json!("y\n"), &json!("crlf")));
}

#[test]
fn p8_long_lines_are_truncated_with_a_note() {
    let text = format!(
        "short\n{}\r\n{}\n{}\n",
        "y".repeat(LINE_CHARS),
        "é".repeat(LINE_CHARS + 1),
        "z".repeat(200_000)
    );
    let data = read_all(text.as_bytes(), None);
    let lines: Vec<&str> = data["content"].as_str().expect("a text").lines().collect();
    assert_eq!((lines[0], lines[1].len()), ("short", LINE_CHARS));
    assert!(lines[2].ends_with("é … [line cut: 2000 of 2001 characters are shown]"), "{}", lines[2]);
    assert!(lines[3].ends_with("of 200000 characters are shown]"));
    assert!(data["note"].as_str().expect("a note").contains("are cut (3, 4)"), "{}", data["note"]);
}

#[test]
fn encodings_are_found_by_name_by_mark_or_by_a_reported_guess() {
    let german = "Grüße\n";
    for (bytes, requested, encoding) in [
        (german.as_bytes().to_vec(), None, "utf-8"),
        ([b"\xEF\xBB\xBF", german.as_bytes()].concat(), None, "utf-8"),
        (b"Gr\xFC\xDFe\n".to_vec(), Some("latin-1"), "latin-1"),
        (b"Gr\xFC\xDFe\n".to_vec(), None, "latin-1"),
        (
            [0xFF, 0xFE].into_iter().chain(german.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
            None,
            "utf-16le",
        ),
        (german.encode_utf16().flat_map(u16::to_le_bytes).collect(), Some("utf-16"), "utf-16le"),
    ] {
        let data = read_all(&bytes, requested);
        assert_eq!(
            (&data["content"], &data["encoding"]),
            (&json!(german), &json!(encoding)),
            "{requested:?}"
        );
    }
    let labelled = read_all(b"Gr\xFC\xDFe\n", None);
    assert!(labelled["note"].as_str().expect("a note").contains("not valid utf-8 and is shown as latin-1"));
    assert_eq!(read_all(b"\xC4\xE3\xBA\xC3", Some("gbk"))["content"], "你好");
    let error = read(b"Gr\xFC\xDFe\n", &page(1, 9), Some("utf-8")).expect_err("is not");
    assert!(error.starts_with("'f' is not valid utf-8: try another encoding"), "{error}");
    assert!(
        read(b"x", &page(1, 9), Some("klingon")).expect_err("is none").contains("no encoding that is known")
    );
}

#[test]
fn invalid_bytes_outside_the_page_do_not_affect_it() {
    let mut bytes = b"torn \xFC\n".to_vec();
    bytes.extend("é\n".repeat(PIECE_BYTES).into_bytes());
    let data = read(&bytes, &page(PIECE_BYTES as u64, 2), None).expect("a page");
    assert_eq!((&data["encoding"], &data["content"]), (&json!("utf-8"), &json!("é\né\n")));
}

#[test]
fn binary_files_are_refused_with_an_alternative() {
    for bytes in [&b"\x7fELF\0\0"[..], b"a\0b"] {
        let error = read(bytes, &page(1, 9), None).expect_err("binary");
        assert!(error.contains("is a binary file") && error.contains("execute_python"), "{error}");
    }
    let late = [vec![b'x'; 10_000], b"\n\0\n".to_vec()].concat();
    assert!(read(&late, &page(2, 1), None).expect_err("binary").contains("binary"));
}

#[test]
fn p8_a_file_larger_than_memory_is_read_in_pages() {
    let file = file(b"first\n");
    file.set_len(1 << 40).expect("a long file");
    // The rest is holes, one line of NULs: the test does not read it to its end.
    let mut head = vec![b'x'; 8 * 1024];
    head[5] = b'\n';
    let mut writer = &file;
    writer.rewind().expect("rewound");
    writer.write_all(&head).expect("written");
    writer.rewind().expect("rewound");
    let (data, version) = page(1, 1)
        .read(file, None, &CancelToken::new(Arc::new(Ticking::default())).with_deadline(200))
        .expect("a page");
    assert_eq!(
        (&data["content"], &data["total_lines"], &data["has_more"]),
        (&json!("xxxxx\n"), &Value::Null, &json!(true))
    );
    assert!(data["note"].as_str().expect("a note").contains("not all counted"), "{data}");
    assert_eq!(version, None, "the end was not seen");
}

#[test]
fn a_page_not_read_in_time_is_an_error() {
    let file = file(b"first\n");
    file.set_len(1 << 40).expect("a long file");
    let mut head = vec![b'x'; 8 * 1024];
    head[5] = b'\n';
    let mut writer = &file;
    writer.rewind().expect("rewound");
    writer.write_all(&head).expect("written");
    writer.rewind().expect("rewound");
    let late = page(5, 1).read(file, None, &CancelToken::new(Arc::new(Ticking::default())).with_deadline(2));
    let error = late.expect_err("no page").to_string();
    assert!(error.contains("the time was up"), "{error}");
}

/// Advances with every reading.
#[derive(Default)]
struct Ticking(std::sync::atomic::AtomicU64);

impl Clock for Ticking {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}
