//! A child's reports to its parent besides output: the frames of the set-up, and the guest's result.
//!
//! The two pipes have different trust. The child closes the frames pipe before guest code runs, so frames
//! come from our own code and are believed. The guest inherits the result pipe: its content is text and never
//! decides a status. One pipe would not do: a guest can open `/proc/self/fd/N` for reading (landlock does not
//! check pipes), remove frames that the parent has not read yet, and write its own.

use std::fs::File;
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::record::RunStatus;
use crate::sys;

/// The exit code of a child whose set-up failed.
pub(crate) const SET_UP_FAILED: i32 = 70;
/// The maximal length of a result or a traceback. Longer ones are cut.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024;
/// How much the parent reads from each report pipe: both texts, at up to six bytes per byte in JSON.
pub(crate) const MAX_REPORT_BYTES: usize = 13 * MAX_TEXT_BYTES;

/// One line of the frames pipe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum ReportFrame {
    /// A step of the set-up failed; nothing ran.
    Failed { message: String },
    /// The whole policy is in force; the program is parsed and checked next.
    Ready,
    /// The program was refused; nothing ran.
    Refused {
        /// `module_not_allowed`, `builtin_not_allowed`, `syntax_error`, or `oom` while it was compiled.
        status: RunStatus,
        message: String,
    },
    /// Guest code runs from here on. The last frame before the pipe is closed.
    Go,
}

/// The only line of the result pipe: the program's outcome in its own words.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct GuestResult {
    /// The value of the last expression.
    #[serde(default)]
    pub result: Option<String>,
    /// The traceback.
    #[serde(default)]
    pub error: Option<String>,
    /// Claims that a memory error ended the program.
    #[serde(default)]
    pub out_of_memory: bool,
}

/// Writes the report in the child.
pub(crate) struct ReportWriter {
    /// `None` once guest code runs.
    frames: Option<File>,
    result: File,
}

impl ReportWriter {
    pub(crate) fn new(frames: File, result: File) -> Self {
        Self { frames: Some(frames), result }
    }

    /// Writes one frame. Errors are ignored: a parent that stops reading kills the child when it needs to.
    pub(crate) fn write_frame(&mut self, frame: &ReportFrame) {
        if let Some(frames) = &mut self.frames {
            write_line(frames, frame);
        }
    }

    /// Reports that guest code runs next, and closes the frames pipe.
    pub(crate) fn start_guest(&mut self) {
        self.write_frame(&ReportFrame::Go);
        self.frames = None;
    }

    pub(crate) fn write_result(&mut self, result: &GuestResult) {
        write_line(&mut self.result, result);
    }

    /// Reports that the set-up failed, and exits.
    pub(crate) fn fail(&mut self, message: String) -> ! {
        self.write_frame(&ReportFrame::Failed { message });
        sys::exit_now(SET_UP_FAILED)
    }

    /// Closes both pipes when this process executes another program.
    pub(crate) fn close_on_exec(&self) -> std::io::Result<()> {
        for pipe in self.frames.iter().chain([&self.result]) {
            rustix::io::fcntl_setfd(pipe, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(())
    }
}

fn write_line(pipe: &mut File, line: &impl Serialize) {
    let Ok(mut line) = serde_json::to_vec(line) else { sys::exit_now(SET_UP_FAILED) };
    line.push(b'\n');
    pipe.write_all(&line).ok();
}

/// How far the child got before guest code had control.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SetupStage {
    /// The policy was not in force yet.
    SetUp,
    /// A step of the set-up failed.
    Failed(String),
    /// The policy was in force, and the program was being checked.
    Ready,
    /// The program was refused.
    Refused(RunStatus, String),
    /// Guest code had control.
    Ran,
}

/// Reads the frames.
pub(crate) fn stage(frames: &[u8]) -> SetupStage {
    let mut stage = SetupStage::SetUp;
    for line in frames.split(|byte| *byte == b'\n') {
        let Ok(frame) = serde_json::from_slice::<ReportFrame>(line) else { continue };
        stage = match frame {
            ReportFrame::Failed { message } => SetupStage::Failed(message),
            ReportFrame::Ready => SetupStage::Ready,
            ReportFrame::Refused { status, message } if is_refusal(status) => {
                SetupStage::Refused(status, truncate(message))
            }
            ReportFrame::Refused { status, .. } => {
                SetupStage::Failed(format!("a refusal cannot have the status '{status}'"))
            }
            // Everything after the last frame comes from the guest.
            ReportFrame::Go => return SetupStage::Ran,
        };
    }
    stage
}

/// The message of a failure, even after the start of a program that could not be executed: only our own code
/// has the pipe then.
pub(crate) fn failure(frames: &[u8]) -> Option<String> {
    frames.split(|byte| *byte == b'\n').find_map(|line| match serde_json::from_slice(line) {
        Ok(ReportFrame::Failed { message }) => Some(truncate(message)),
        _ => None,
    })
}

/// Whether a program can be refused with this status. Every other status needs a run.
fn is_refusal(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::ModuleNotAllowed | RunStatus::BuiltinNotAllowed | RunStatus::SyntaxError | RunStatus::Oom
    )
}

/// Reads the guest's result. Any other content counts as an empty result.
pub(crate) fn guest_result(line: &[u8]) -> GuestResult {
    let first = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let parsed: GuestResult = serde_json::from_slice(first).unwrap_or_default();
    GuestResult { result: parsed.result.map(truncate), error: parsed.error.map(truncate), ..parsed }
}

/// Cuts a text at [`MAX_TEXT_BYTES`], between two characters.
pub(crate) fn truncate(text: String) -> String {
    truncate_at(text, MAX_TEXT_BYTES)
}

/// Cuts a text at a number of bytes, between two characters.
pub(crate) fn truncate_at(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let mut edge = max_bytes;
        while !text.is_char_boundary(edge) {
            edge -= 1;
        }
        text.truncate(edge);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_frames_show_the_setup_stage_of_the_child() {
        assert_eq!(stage(b""), SetupStage::SetUp);
        assert_eq!(stage(b"{\"frame\":\"ready\"}\n{\"frame\":\"go\"}\n"), SetupStage::Ran);
        let refused = b"{\"frame\":\"ready\"}\n{\"frame\":\"refused\",\"status\":\"module_not_allowed\",\"message\":\"m\"}\n";
        assert_eq!(stage(refused), SetupStage::Refused(RunStatus::ModuleNotAllowed, "m".to_owned()));
    }

    #[test]
    fn a_refusal_cannot_claim_success_and_frames_after_go_are_ignored() {
        let forged = b"{\"frame\":\"refused\",\"status\":\"ok\",\"message\":\"m\"}\n";
        assert!(matches!(stage(forged), SetupStage::Failed(_)));
        let late = b"{\"frame\":\"go\"}\n{\"frame\":\"failed\",\"message\":\"m\"}\n";
        assert_eq!(stage(late), SetupStage::Ran);
    }

    #[test]
    fn a_guest_result_is_parsed_or_absent() {
        assert_eq!(
            guest_result(b"{\"result\":\"1\",\"status\":\"ok\"}\n{\"result\":\"2\"}\n").result.as_deref(),
            Some("1")
        );
        assert!(guest_result(b"\xff\0 anything").result.is_none());
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        let text = truncate("é".repeat(MAX_TEXT_BYTES));
        assert!(text.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
    }
}
