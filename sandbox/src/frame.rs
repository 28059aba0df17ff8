//! The lines that a child writes on its report pipe, and how far the parent may believe them.
//!
//! Owns: the rule that everything before [`Frame::Go`] was written by our own code, because no guest code had
//! run yet, and that everything after it may come from the guest and is text, never a verdict.

use serde::{Deserialize, Serialize};

use crate::record::Status;

/// The most bytes of a result or a traceback that are kept.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024;
/// The most bytes that the parent reads from a report pipe: both texts, JSON-escaped six times over.
pub(crate) const MAX_REPORT_BYTES: usize = 13 * MAX_TEXT_BYTES;

/// One line of the report pipe.
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
        /// `module_not_allowed`, `builtin_not_allowed` or `syntax_error`.
        status: Status,
        /// The message for the model.
        message: String,
    },
    /// The guest's code runs from here on.
    Go,
    /// What became of it, in words.
    End {
        /// The last expression's value.
        #[serde(default)]
        result: Option<String>,
        /// The traceback.
        #[serde(default)]
        error: Option<String>,
        /// A memory error ended it, or so it says.
        #[serde(default)]
        out_of_memory: bool,
    },
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
    Refused(Status, String),
    /// Guest code had control.
    Ran,
}

/// The child's report, split into what is known and what is only said.
#[derive(Debug)]
pub(crate) struct Told {
    /// Known: written before the guest had control.
    pub stage: Stage,
    /// Said: the last expression's value.
    pub result: Option<String>,
    /// Said: the traceback.
    pub error: Option<String>,
    /// Said: memory ran out.
    pub out_of_memory: bool,
}

/// Reads a report. Unknown lines are skipped before `Go` and after it.
pub(crate) fn read(report: &[u8]) -> Told {
    let mut told = Told { stage: Stage::Setup, result: None, error: None, out_of_memory: false };
    for line in report.split(|byte| *byte == b'\n') {
        let Ok(frame) = serde_json::from_slice::<Frame>(line) else { continue };
        if told.stage == Stage::Ran {
            if let Frame::End { result, error, out_of_memory } = frame {
                told.result = result.map(cut);
                told.error = error.map(cut);
                told.out_of_memory = out_of_memory;
                break;
            }
            continue;
        }
        told.stage = match frame {
            Frame::Failed { message } => Stage::Failed(message),
            Frame::Ready => Stage::Ready,
            Frame::Refused { status, message } => Stage::Refused(status, cut(message)),
            Frame::Go => Stage::Ran,
            Frame::End { .. } => continue,
        };
    }
    told
}

/// Cuts a text at [`MAX_TEXT_BYTES`], on a character's edge.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let mut edge = MAX_TEXT_BYTES;
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
    fn frames_after_go_are_words_only() {
        let told = read(
            b"{\"frame\":\"ready\"}\n{\"frame\":\"go\"}\n{\"frame\":\"refused\",\"status\":\"syntax_error\",\"message\":\"x\"}\n\
              {\"frame\":\"failed\",\"message\":\"forged\"}\n{\"frame\":\"end\",\"result\":\"1\"}\n{\"frame\":\"end\",\"result\":\"2\"}\n",
        );
        assert_eq!(told.stage, Stage::Ran);
        assert_eq!(told.result.as_deref(), Some("1"));
    }

    #[test]
    fn a_refusal_before_go_is_known() {
        let told = read(b"{\"frame\":\"ready\"}\n{\"frame\":\"refused\",\"status\":\"module_not_allowed\",\"message\":\"m\"}\n");
        assert_eq!(told.stage, Stage::Refused(Status::ModuleNotAllowed, "m".to_owned()));
    }

    #[test]
    fn long_text_is_cut_on_a_character_edge() {
        let text = cut("é".repeat(MAX_TEXT_BYTES));
        assert!(text.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
    }
}
