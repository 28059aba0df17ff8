//! The wire form of each event (DESIGN §4): server-sent events or JSON lines.

use crate::domain::event::{Event, FailureCode, FinishReason, SequencedEvent, StatusPhase, StepKind};
use crate::domain::id::MessageId;
use crate::domain::log_chain::ChainLink;
use crate::domain::steps::StepId;
use crate::domain::usage::Usage;
use crate::http::error::DAMAGED_DATA;
use crate::ports::StoreError;
use serde::Serialize;

/// Wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// `id:`, `event:`, `data:`.
    Sse,
    /// `{"id","event","data"}`, one per line.
    Ndjson,
}

/// Why a page cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The text before the page could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The earlier text does not fit the page.
    #[error("step {index} has {found} bytes where {expected} were expected")]
    Torn {
        /// The step.
        index: u32,
        /// What the newest piece says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// A frame could not be written as JSON.
    #[error("a frame is not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes an event as it is stored.
pub(crate) fn write_event(
    out: &mut Vec<u8>,
    wire: StreamFormat,
    numbered: &SequencedEvent,
) -> Result<(), FrameError> {
    let seq = numbered.seq;
    match &numbered.event {
        Event::Status { status, attempt, reason } => {
            let reason = reason.as_deref();
            let calls = None;
            write(
                out,
                wire,
                seq,
                "status",
                &StatusFrame { status: *status, attempt: *attempt, reason, calls },
            )
        }
        Event::WaitingApproval { attempt, reason, calls } => {
            let (reason, calls) = (Some(reason.as_str()), Some(calls.as_slice()));
            let status = StatusPhase::WaitingApproval;
            write(out, wire, seq, "status", &StatusFrame { status, attempt: *attempt, reason, calls })
        }
        Event::Delta { index, kind, offset, text, .. } => {
            let (id, index, kind, offset) = (StepId(*index), *index, *kind, *offset);
            let delta = DeltaFrame { id, index, kind, name: None, delta: text, offset };
            write(out, wire, seq, "process_step", &delta)
        }
        Event::CallBegun { index, name } => {
            let (id, index, kind, name) = (StepId(*index), *index, StepKind::Arguments, Some(name.as_str()));
            let begun = DeltaFrame { id, index, kind, name, delta: "", offset: 0 };
            write(out, wire, seq, "process_step", &begun)
        }
        Event::ToolCall { index, call, is_client } => {
            let (id_ref, name, arguments) = (&*call.id_ref, &*call.name, &*call.arguments);
            let kind = "tool_call";
            let (id, index, is_client) = (StepId(*index), *index, *is_client);
            let step = ToolCallFrame { id, index, kind, id_ref, name, arguments, is_client };
            write(out, wire, seq, "process_step", &step)
        }
        Event::ToolResult { index, id_ref, name, content, skipped, .. } => {
            let (id, kind, skipped) = (StepId(*index), "tool_result", *skipped);
            let step = ToolResultFrame { id, index: *index, kind, id_ref, name, content, skipped };
            write(out, wire, seq, "process_step", &step)
        }
        Event::StepDiscarded { index } => {
            write(out, wire, seq, "step_discarded", &StepDiscardedFrame { id: StepId(*index) })
        }
        Event::Summary { content, .. } => write(out, wire, seq, "summary", &SummaryFrame { content }),
        Event::AgentStep { step, .. } => write(out, wire, seq, "agent_step", step),
        Event::Done { message_id, token_count, suggested_title, usage, finish_reason, .. } => {
            let done = DoneFrame {
                message_id: *message_id,
                token_count: *token_count,
                suggested_title: suggested_title.as_deref(),
                usage: *usage,
                finish_reason: *finish_reason,
                log_head: numbered.log_head,
            };
            write(out, wire, seq, "done", &done)
        }
        Event::Error { content, code, .. } => {
            let log_head = numbered.log_head;
            write(out, wire, seq, "error", &ErrorFrame { content, code: *code, log_head })
        }
    }
}

/// Writes that the rest of the log is damaged. The frame is no event of the log: as server-sent event it has
/// no id, as JSON line the id of the last event.
pub(crate) fn write_damage(wire: StreamFormat, cursor: u64) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    let data = ErrorFrame { content: DAMAGED_DATA, code: FailureCode::DamagedData, log_head: None };
    match wire {
        StreamFormat::Sse => {
            out.extend_from_slice(b"event: error\ndata: ");
            serde_json::to_writer(&mut out, &data)?;
            out.extend_from_slice(b"\n\n");
        }
        StreamFormat::Ndjson => write(&mut out, wire, cursor, "error", &data)?,
    }
    Ok(out)
}

/// Writes one frame. JSON escapes line breaks, so `data` is one line.
pub(crate) fn write(
    out: &mut Vec<u8>,
    wire: StreamFormat,
    seq: u64,
    name: &'static str,
    data: &impl Serialize,
) -> Result<(), FrameError> {
    match wire {
        StreamFormat::Sse => {
            out.extend_from_slice(format!("id: {seq}\nevent: {name}\ndata: ").as_bytes());
            serde_json::to_writer(&mut *out, data)?;
            out.extend_from_slice(b"\n\n");
        }
        StreamFormat::Ndjson => {
            serde_json::to_writer(&mut *out, &NdjsonLine { id: seq, event: name, data })?;
            out.push(b'\n');
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct NdjsonLine<'a, T> {
    pub(crate) id: u64,
    event: &'static str,
    data: &'a T,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct GapFrame {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StatusFrame<'a> {
    status: StatusPhase,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The calls that wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<&'a [String]>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StepFrame<'a> {
    pub(crate) id: StepId,
    pub(crate) index: u32,
    #[serde(rename = "type")]
    pub(crate) kind: StepKind,
    /// Only in the first frame after a resume: so many events after the cursor have no frame of their own,
    /// because this one contains their text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merged: Option<u64>,
    /// Last: a long text is written in pieces.
    pub(crate) content: &'a str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeltaFrame<'a> {
    pub(crate) id: StepId,
    pub(crate) index: u32,
    #[serde(rename = "type")]
    pub(crate) kind: StepKind,
    /// Only in the first frame of `arguments`, whose `delta` is empty: the function that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    delta: &'a str,
    offset: u64,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ToolCallFrame<'a> {
    pub(crate) id: StepId,
    pub(crate) index: u32,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    id_ref: &'a str,
    name: &'a str,
    arguments: &'a str,
    /// The client runs it: there is no result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_client: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ToolResultFrame<'a> {
    pub(crate) id: StepId,
    pub(crate) index: u32,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    id_ref: &'a str,
    name: &'a str,
    pub(crate) content: &'a str,
    skipped: bool,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct StepDiscardedFrame {
    pub(crate) id: StepId,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DoneFrame<'a> {
    message_id: MessageId,
    token_count: u64,
    suggested_title: Option<&'a str>,
    usage: Usage,
    finish_reason: FinishReason,
    /// Head of the hash chain of the log that ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_head: Option<ChainLink>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct SummaryFrame<'a> {
    pub(crate) content: &'a str,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ErrorFrame<'a> {
    pub(crate) content: &'a str,
    code: FailureCode,
    /// Head of the hash chain of the log that ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_head: Option<ChainLink>,
}
