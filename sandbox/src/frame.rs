//! What a child tells its parent besides output, and how far the parent may believe it.
//!
//! Owns: the two pipes of a report. Frames go through the first, which the child closes before guest code runs: they
//! are our own code's and are believed. Words go through the second, which the guest inherits: text, never a verdict.
//! One pipe would not do: a guest can open `/proc/self/fd/N` for reading (landlock lets pipes pass), take our frames
//! out of the pipe before the parent has seen them, and put its own in.

use serde::{Deserialize, Serialize};

use crate::record::RunStatus;

/// The most bytes of a result or a traceback that are kept.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024;
/// The most bytes that the parent reads from a pipe of the report: both texts, JSON-escaped six times over.
pub(crate) const MAX_REPORT_BYTES: usize = 13 * MAX_TEXT_BYTES;

/// One line of the first pipe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum Frame {
    /// A step of the set-up failed; nothing ran.
    Failed {
        /// Which step, and why.
        message: String,
    },
    /// The whole policy is in force; the guest's text is looked at next.
    Ready,
    /// The guest's text was refused; nothing ran.
    Refused {
        /// `module_not_allowed`, `builtin_not_allowed`, `syntax_error`, or `oom` while it was compiled.
        status: RunStatus,
        /// The message for the model.
        message: String,
    },
    /// The guest's code runs from here on: the last frame before the pipe is closed.
    Go,
}

/// The one line of the second pipe: what became of the program, as it says itself.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Words {
    /// The last expression's value.
    #[serde(default)]
    pub result: Option<String>,
    /// The traceback.
    #[serde(default)]
    pub error: Option<String>,
    /// A memory error ended it, or so it says.
    #[serde(default)]
    pub out_of_memory: bool,
}

/// How far the child came before guest code had control.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not even the policy was in force.
    Setup,
    /// A step of the set-up failed.
    Failed(String),
    /// The policy was in force, the guest's text was being looked at.
    Ready,
    /// Refused before it ran.
    Refused(RunStatus, String),
    /// Guest code had control.
    Ran,
}

/// Reads the frames: how far the child came.
pub(crate) fn stage(frames: &[u8]) -> Stage {
    let mut stage = Stage::Setup;
    for line in frames.split(|byte| *byte == b'\n') {
        let Ok(frame) = serde_json::from_slice::<Frame>(line) else { continue };
        stage = match frame {
            Frame::Failed { message } => Stage::Failed(message),
            Frame::Ready => Stage::Ready,
            Frame::Refused { status, message } if is_refusal(status) => Stage::Refused(status, cut(message)),
            Frame::Refused { status, .. } => Stage::Failed(format!("a refusal as '{status}' makes no sense")),
            // The last frame: whatever stands behind it is not ours.
            Frame::Go => return Stage::Ran,
        };
    }
    stage
}

/// What failed, also after the start: of a program that then never began, for nobody else has that pipe.
pub(crate) fn failure(frames: &[u8]) -> Option<String> {
    frames.split(|byte| *byte == b'\n').find_map(|line| match serde_json::from_slice(line) {
        Ok(Frame::Failed { message }) => Some(cut(message)),
        _ => None,
    })
}

/// Whether a program can be refused with this status; any other would be a verdict on a run that never was.
fn is_refusal(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::ModuleNotAllowed | RunStatus::BuiltinNotAllowed | RunStatus::SyntaxError | RunStatus::Oom
    )
}

/// Reads the words; a guest that wrote anything else into the pipe has said nothing.
pub(crate) fn words(line: &[u8]) -> Words {
    let first = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words: Words = serde_json::from_slice(first).unwrap_or_default();
    Words { result: words.result.map(cut), error: words.error.map(cut), ..words }
}

/// Cuts a text at [`MAX_TEXT_BYTES`], on a character's edge.
pub(crate) fn cut(text: String) -> String {
    cut_at(text, MAX_TEXT_BYTES)
}

/// Cuts a text at so many bytes, on a character's edge.
pub(crate) fn cut_at(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut edge = most;
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
    fn frames_tell_how_far_the_child_came() {
        assert_eq!(stage(b""), Stage::Setup);
        assert_eq!(stage(b"{\"frame\":\"ready\"}\n{\"frame\":\"go\"}\n"), Stage::Ran);
        let refused = b"{\"frame\":\"ready\"}\n{\"frame\":\"refused\",\"status\":\"module_not_allowed\",\"message\":\"m\"}\n";
        assert_eq!(stage(refused), Stage::Refused(RunStatus::ModuleNotAllowed, "m".to_owned()));
    }

    #[test]
    fn a_refusal_is_no_verdict_and_nothing_follows_the_start() {
        let forged = b"{\"frame\":\"refused\",\"status\":\"ok\",\"message\":\"m\"}\n";
        assert!(matches!(stage(forged), Stage::Failed(_)));
        let late = b"{\"frame\":\"go\"}\n{\"frame\":\"failed\",\"message\":\"m\"}\n";
        assert_eq!(stage(late), Stage::Ran);
    }

    #[test]
    fn words_are_text_or_nothing() {
        assert_eq!(
            words(b"{\"result\":\"1\",\"status\":\"ok\"}\n{\"result\":\"2\"}\n").result.as_deref(),
            Some("1")
        );
        assert!(words(b"\xff\0 anything").result.is_none());
    }

    #[test]
    fn long_text_is_cut_on_a_character_edge() {
        let text = cut("é".repeat(MAX_TEXT_BYTES));
        assert!(text.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
    }
}
