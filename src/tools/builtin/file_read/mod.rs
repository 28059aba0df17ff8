//! `file_read`: a page of lines of a text file of the job's project. Memory is bounded whatever the size of
//! the file; a file that is no text is an error.

mod encoding;
mod pager;

use super::builtin_tool::spec;
use super::project_file::{READS, display_path, file_error, path_parameter, project_tool};
use crate::ports::{CancelToken, Tool, ToolError};
use crate::tools::registry::ToolDeps;
use encoding::FileDecoding;
use pager::{LINE_CHARS, LinePager};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

/// Lines of a page, by default and at most.
const LINES: u64 = 2_000;
/// Bytes of one read.
const PIECE_BYTES: usize = 32 * 1024;
/// First bytes, which show whether the file is text.
const HEAD_BYTES: u64 = 8 * 1024;
/// Lines after this many bytes are neither shown nor counted.
const SCAN_BYTES: u64 = 1024 * 1024 * 1024;
/// Characters of the result around a page.
const FRAME_CHARS: usize = 1_000;
/// Numbers of cut lines in a note.
const MAX_CUT_LINES: usize = 20;

#[derive(Deserialize)]
struct ReadArguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
    encoding: Option<String>,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_read",
        "Read a text file of the project, page by page: the lines from offset on. has_more and next_offset say where it \
         goes on. Line ends are shown as \\n, whatever they are in the file.",
        json!({
            "path": path_parameter("The file"),
            "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "The first line, counted from 1"},
            "limit": {
                "type": "integer", "minimum": 1, "maximum": LINES, "default": LINES,
                "description": "How many lines; fewer come when they are long",
            },
            "encoding": {
                "type": "string", "minLength": 1, "maxLength": 40,
                "description": "As in utf-8 (the default), utf-16, latin-1, gbk, big5, shift_jis, euc-kr, windows-1251",
            },
        }),
        &["path"],
    );
    let result_chars = deps.options.limits.tool_result_chars;
    let max_json_chars = result_chars.saturating_sub(FRAME_CHARS.min(result_chars / 2));
    project_tool(deps, spec, READS, move |files, arguments: ReadArguments, context| {
        let (file, size) = files.open(&arguments.path).map_err(file_error)?;
        let page = LinePage {
            path: display_path(&arguments.path),
            size,
            first: arguments.offset.unwrap_or(1),
            lines: arguments.limit.unwrap_or(LINES).min(LINES),
            max_json_chars,
        };
        page.read(file, arguments.encoding.as_deref(), &context.cancel)
    })
}

/// The requested page.
struct LinePage {
    path: String,
    size: u64,
    first: u64,
    lines: u64,
    max_json_chars: usize,
}

/// The result of one pass through the file.
struct FileScan {
    pager: LinePager,
    /// `None` when the end was not reached.
    total: Option<u64>,
    /// A part of the page could not be decoded.
    is_malformed: bool,
    /// The call was cancelled before the page was full.
    is_cut_off: bool,
}

impl LinePage {
    fn read(&self, mut file: File, encoding: Option<&str>, cancel: &CancelToken) -> Result<Value, ToolError> {
        let read_failed =
            |error: std::io::Error| ToolError::failed(format!("'{}' cannot be read: {error}", self.path));
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head).map_err(read_failed)?;
        let mut decoding = FileDecoding::of(encoding, &head).map_err(ToolError::Invalid)?;
        if head.contains(&0) && !decoding.is_wide() {
            return Err(self.binary());
        }
        let mut scan = self.scan(&mut file, decoding, cancel).map_err(read_failed)?;
        let mut notes = Vec::new();
        if scan.is_cut_off {
            return Err(self.timed_out());
        }
        if scan.is_malformed && decoding.is_guess {
            decoding = FileDecoding::FALLBACK;
            scan = self.scan(&mut file, decoding, cancel).map_err(read_failed)?;
            if scan.is_cut_off {
                return Err(self.timed_out());
            }
            notes.push(
                "This is not valid utf-8 and is shown as latin-1: if letters look wrong, name the encoding (gbk, big5, \
                 shift_jis, windows-1251 …)"
                    .to_owned(),
            );
        } else if scan.is_malformed {
            return Err(ToolError::failed(format!(
                "'{}' is not valid {}: try another encoding (utf-8, latin-1, gbk, utf-16), or none, so that it is guessed",
                self.path,
                decoding.name()
            )));
        }
        if scan.pager.text.contains('\0') {
            return Err(self.binary());
        }
        if scan.pager.shown == 0 && self.first > 1 {
            return Err(self.offset_beyond_end(&scan));
        }
        Ok(self.result(&scan, decoding, notes))
    }

    /// Reads until the page is full and the lines are counted.
    fn scan(
        &self,
        file: &mut File,
        decoding: FileDecoding,
        cancel: &CancelToken,
    ) -> std::io::Result<FileScan> {
        file.seek(SeekFrom::Start(decoding.mark_bytes))?;
        let mut decoder = decoding.encoding.new_decoder_without_bom_handling();
        let mut scan = FileScan {
            pager: LinePager::new(self.first, self.lines, self.max_json_chars),
            total: None,
            is_malformed: false,
            is_cut_off: false,
        };
        let (mut piece, mut text, mut bytes_read) = (vec![0; PIECE_BYTES], String::new(), 0_u64);
        while bytes_read < SCAN_BYTES {
            if cancel.is_cancelled() {
                // A full page is a result even if the following lines are not counted.
                scan.is_cut_off = !scan.pager.is_full();
                break;
            }
            let read = match file.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            bytes_read = bytes_read.saturating_add(read as u64);
            text.clear();
            text.reserve(decoder.max_utf8_buffer_length(read).unwrap_or(4 * PIECE_BYTES));
            let bytes = piece.get(..read).unwrap_or_default();
            let was_full = scan.pager.is_full();
            let (_, _, is_malformed) = decoder.decode_to_string(bytes, &mut text, read == 0);
            scan.pager.push(&text);
            // Errors outside of the page do not matter.
            scan.is_malformed |= is_malformed && !was_full && scan.pager.has_started();
            if read == 0 {
                scan.total = Some(scan.pager.finish());
                break;
            }
        }
        Ok(scan)
    }

    fn result(&self, scan: &FileScan, decoding: FileDecoding, mut notes: Vec<String>) -> Value {
        let pager = &scan.pager;
        let next = self.first.saturating_add(pager.shown);
        let has_more = scan.total.is_none_or(|total| next <= total);
        if !pager.cut.is_empty() {
            let cut: Vec<String> = pager.cut.iter().take(MAX_CUT_LINES).map(u64::to_string).collect();
            notes.push(format!(
                "Lines longer than {LINE_CHARS} characters are cut ({}): bash (cut -c) or execute_python shows the rest",
                cut.join(", ")
            ));
        }
        if scan.total.is_none() {
            notes.push("The file is so large that its lines were not all counted".to_owned());
        }
        if scan.total == Some(0) {
            notes.push("The file is empty".to_owned());
        }
        let mut data = json!({
            "path": self.path,
            "size": self.size,
            "encoding": decoding.name(),
            "start_line": self.first,
            "lines": pager.shown,
            "total_lines": scan.total,
            "has_more": has_more,
            "next_offset": has_more.then_some(next),
            "line_endings": pager.line_endings(),
        });
        if let Some(map) = data.as_object_mut() {
            if !notes.is_empty() {
                map.insert("note".to_owned(), json!(notes.join(". ")));
            }
            map.insert("content".to_owned(), json!(pager.text));
        }
        data
    }

    fn offset_beyond_end(&self, scan: &FileScan) -> ToolError {
        let Self { path, first, .. } = self;
        ToolError::failed(match scan.total {
            Some(total) => {
                format!(
                    "offset {first} is beyond the end: '{path}' has {total} lines. Use an offset from 1 to {total}"
                )
            }
            None => format!(
                "line {first} of '{path}' is too far away to be reached like this: use bash (tail, or sed -n '{first},+100p')"
            ),
        })
    }

    fn timed_out(&self) -> ToolError {
        ToolError::failed(format!(
            "the time was up before line {} of '{}' was reached: use a smaller offset, or bash (tail, sed -n)",
            self.first, self.path
        ))
    }

    fn binary(&self) -> ToolError {
        ToolError::failed(format!(
            "'{}' is a binary file (it has NUL bytes), and file_read shows text only. Look into it with execute_python or bash \
             (file, strings, od); if it is text in utf-16, name that encoding",
            self.path
        ))
    }
}

#[cfg(test)]
mod tests;
