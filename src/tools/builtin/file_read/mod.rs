//! `file_read`: a page of lines of a text file of the job. Memory is bounded whatever the size of
//! the file; a file that is no text is an error.

mod pager;

use super::builtin_tool::spec;
use super::text_encoding::FileDecoding;
use super::workspace_file::{FileDigest, READS, file_error, file_tool, path_parameter, relative};
use super::workspace_programs::FilePrograms;
use crate::ports::{CancelToken, Tool, ToolError};
use crate::tools::registry::ToolDeps;
use pager::{LINE_CHARS, LinePager};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

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
        "Read a text file, page by page: has_more and next_offset say where it goes on.",
        json!({
            "path": path_parameter(),
            "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "First line"},
            "limit": {"type": "integer", "minimum": 1, "maximum": LINES, "description": "Lines"},
            "encoding": {
                "type": "string", "minLength": 1, "maxLength": 40,
                "description": "Default: guessed",
            },
        }),
        &["path"],
    );
    let result_chars = deps.options.limits.tool_result_chars;
    let max_json_chars = result_chars.saturating_sub(FRAME_CHARS.min(result_chars / 2));
    let (runner, hashed_bytes) = (Arc::clone(&deps.code), deps.options.limits.file_bytes);
    file_tool(deps, spec, READS, move |files, arguments: ReadArguments, context| {
        let path = relative(files, &arguments.path)?;
        let (file, size) = files.open(&path).map_err(file_error)?;
        let page = LinePage {
            path,
            size,
            first: arguments.offset.unwrap_or(1),
            lines: arguments.limit.unwrap_or(LINES).min(LINES),
            max_json_chars,
            is_hashed: size <= hashed_bytes,
            programs: FilePrograms::of(runner.as_ref(), context),
        };
        let (data, version) = page.read(file, arguments.encoding.as_deref(), &context.cancel)?;
        if let Some(version) = version {
            context.seen_files.record(&page.path, version);
        }
        Ok(data)
    })
}

/// The requested page.
struct LinePage {
    path: String,
    size: u64,
    first: u64,
    lines: u64,
    max_json_chars: usize,
    /// Whether the file is small enough to be edited, so that its version matters.
    is_hashed: bool,
    programs: FilePrograms,
}

/// The result of one pass through the file.
struct FileScan {
    pager: LinePager,
    /// `None` when the end was not reached.
    total: Option<u64>,
    /// The version of the whole file.
    version: Option<String>,
    /// A part of the page could not be decoded.
    is_malformed: bool,
    /// The call was cancelled before the page was full.
    is_cut_off: bool,
}

impl LinePage {
    /// The page, and the version of the file if all of it was read.
    fn read(
        &self,
        mut file: File,
        encoding: Option<&str>,
        cancel: &CancelToken,
    ) -> Result<(Value, Option<String>), ToolError> {
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
        let version = scan.version.take();
        Ok((self.result(&scan, decoding, notes), version))
    }

    /// Reads until the page is full and the lines are counted.
    fn scan(
        &self,
        file: &mut File,
        decoding: FileDecoding,
        cancel: &CancelToken,
    ) -> std::io::Result<FileScan> {
        file.seek(SeekFrom::Start(0))?;
        let mut mark = Vec::new();
        (&*file).take(decoding.mark_bytes).read_to_end(&mut mark)?;
        let mut digest = self.is_hashed.then(FileDigest::default);
        if let Some(digest) = &mut digest {
            digest.add(&mark);
        }
        let mut decoder = decoding.encoding.new_decoder_without_bom_handling();
        let mut scan = FileScan {
            pager: LinePager::new(self.first, self.lines, self.max_json_chars),
            total: None,
            version: None,
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
            if let Some(digest) = &mut digest {
                digest.add(bytes);
            }
            let (_, _, is_malformed) = decoder.decode_to_string(bytes, &mut text, read == 0);
            scan.pager.push(&text);
            // Errors outside of the page do not matter.
            scan.is_malformed |= is_malformed && !was_full && scan.pager.has_started();
            if read == 0 {
                scan.total = Some(scan.pager.finish());
                scan.version = digest.map(FileDigest::version);
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
            let hint = self.programs.hint(": {} shows the rest", "cut -c");
            let cut = cut.join(", ");
            notes.push(format!("Lines longer than {LINE_CHARS} characters are cut ({cut}){hint}"));
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
        ToolError::failed(if let Some(total) = scan.total {
            format!(
                "offset {first} is beyond the end: '{path}' has {total} lines. Use an offset from 1 to {total}"
            )
        } else {
            let commands = format!("tail, or sed -n '{first},+100p'");
            let hint = self.programs.bash_hint(": use {}", &commands);
            format!("line {first} of '{path}' is too far away to be reached like this{hint}")
        })
    }

    fn timed_out(&self) -> ToolError {
        let hint = self.programs.bash_hint(", or {}", "tail, sed -n");
        let Self { first, path, .. } = self;
        ToolError::failed(format!(
            "the time was up before line {first} of '{path}' was reached: use a smaller offset{hint}"
        ))
    }

    fn binary(&self) -> ToolError {
        let hint = self.programs.hint(". Look into it with {}", "file, strings, od");
        let path = &self.path;
        ToolError::failed(format!(
            "'{path}' is a binary file (it has NUL bytes), and file_read shows text only{hint}. If it is text in utf-16, \
             name that encoding"
        ))
    }
}

#[cfg(test)]
mod tests;
