//! `file_read`: a page of lines of a text file of the job's project. Memory is bounded whatever the size of
//! the file; a file that is no text is an error.

mod encoding;
mod pager;

use super::project_file::{folder, path_parameter, refused, shown, text};
use crate::tools::registry::ToolDeps;
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{CancelToken, ProjectFiles, Tool, ToolContext, ToolError};
use encoding::FileDecoding;
use pager::{LINE_CHARS, LinePager};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Lines of a page when none are asked for, and the most of one.
const LINES: u64 = 2_000;
/// What is read at once, bytes.
const PIECE_BYTES: usize = 32 * 1024;
/// First bytes that tell text from other files.
const HEAD_BYTES: u64 = 8 * 1024;
/// Bytes behind which no line is looked for, or counted.
const SCAN_BYTES: u64 = 1024 * 1024 * 1024;
/// Characters of the result around a page.
const FRAME_CHARS: usize = 1_000;
/// Lines that were cut are told up to so many.
const CUT_TOLD: usize = 20;

struct FileRead {
    files: Arc<dyn ProjectFiles>,
    /// What a model sees of a result, characters of JSON.
    result_chars: usize,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let result_chars = deps.options.limits.tool_result_chars;
    Box::new(FileRead { files: Arc::clone(&deps.files), result_chars })
}

impl Tool for FileRead {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_read".into(),
            description: "Read a text file of the project, page by page: the lines from offset on. has_more and next_offset say \
                          where it goes on. Line ends are shown as \\n, whatever they are in the file."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
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
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
        let path = text(arguments, "path");
        let (file, size) = folder(&*self.files, context)?.open(path).map_err(refused)?;
        let room = self.result_chars.saturating_sub(FRAME_CHARS.min(self.result_chars / 2));
        let page = LinePage {
            path: shown(path),
            size,
            first: number("offset").unwrap_or(1),
            lines: number("limit").unwrap_or(LINES).min(LINES),
            room,
        };
        page.read(file, arguments.get("encoding").and_then(Value::as_str), &context.cancel)
    }
}

/// What is asked for.
struct LinePage {
    path: String,
    size: u64,
    first: u64,
    lines: u64,
    room: usize,
}

/// What a walk through the file came to.
struct FileScan {
    pager: LinePager,
    /// `None` when the end was not reached.
    total: Option<u64>,
    /// What is on the page could not all be decoded.
    is_malformed: bool,
    /// The time was up before the page was full.
    is_cut_off: bool,
}

impl LinePage {
    fn read(&self, mut file: File, asked: Option<&str>, cancel: &CancelToken) -> Result<Value, ToolError> {
        let fault = |error: std::io::Error| ToolError::failed(format!("'{}' cannot be read: {error}", self.path));
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head).map_err(fault)?;
        let mut plan = FileDecoding::of(asked, &head).map_err(ToolError::Invalid)?;
        if head.contains(&0) && !plan.is_wide() {
            return Err(self.binary());
        }
        let mut scan = self.scan(&mut file, plan, cancel).map_err(fault)?;
        let mut notes = Vec::new();
        if scan.is_cut_off {
            return Err(self.too_late());
        }
        if scan.is_malformed && plan.is_guess {
            plan = FileDecoding::FALLBACK;
            scan = self.scan(&mut file, plan, cancel).map_err(fault)?;
            if scan.is_cut_off {
                return Err(self.too_late());
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
                plan.name()
            )));
        }
        if scan.pager.text.contains('\0') {
            return Err(self.binary());
        }
        if scan.pager.shown == 0 && self.first > 1 {
            return Err(self.beyond(&scan));
        }
        Ok(self.told(&scan, plan, notes))
    }

    /// Reads until the page is full and the lines are counted.
    fn scan(&self, file: &mut File, plan: FileDecoding, cancel: &CancelToken) -> std::io::Result<FileScan> {
        file.seek(SeekFrom::Start(plan.mark_bytes))?;
        let mut decoder = plan.encoding.new_decoder_without_bom_handling();
        let mut scan = FileScan {
            pager: LinePager::new(self.first, self.lines, self.room),
            total: None,
            is_malformed: false,
            is_cut_off: false,
        };
        let (mut piece, mut words, mut seen) = (vec![0; PIECE_BYTES], String::new(), 0_u64);
        while seen < SCAN_BYTES {
            if cancel.is_cancelled() {
                // A page that is full is one, whether the lines behind it are counted or not.
                scan.is_cut_off = !scan.pager.is_full();
                break;
            }
            let read = match file.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            seen = seen.saturating_add(read as u64);
            words.clear();
            words.reserve(decoder.max_utf8_buffer_length(read).unwrap_or(4 * PIECE_BYTES));
            let bytes = piece.get(..read).unwrap_or_default();
            let was_full = scan.pager.is_full();
            let (_, _, is_malformed) = decoder.decode_to_string(bytes, &mut words, read == 0);
            scan.pager.take(&words);
            // What is before the page, or behind it, is nobody's concern now.
            scan.is_malformed |= is_malformed && !was_full && scan.pager.has_begun();
            if read == 0 {
                scan.total = Some(scan.pager.finish());
                break;
            }
        }
        Ok(scan)
    }

    fn told(&self, scan: &FileScan, plan: FileDecoding, mut notes: Vec<String>) -> Value {
        let pager = &scan.pager;
        let next = self.first.saturating_add(pager.shown);
        let has_more = scan.total.is_none_or(|total| next <= total);
        if !pager.cut.is_empty() {
            let cut: Vec<String> = pager.cut.iter().take(CUT_TOLD).map(u64::to_string).collect();
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
            "encoding": plan.name(),
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

    fn beyond(&self, scan: &FileScan) -> ToolError {
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

    fn too_late(&self) -> ToolError {
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
