//! Models of a replay that answer what the recording has.

use super::recorded_pieces::RecordedPieces;
use super::recording::RunRecording;
use super::store::ReplayStore;
use crate::domain::event::{EngineMark, Event, FailureCode, Record};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::domain::usage::Usage;
use crate::engine::turn::unpriced_text;
use crate::ports::{
    CancelToken, Chunk, ChunkSink, Completion, Model, ModelError, ModelInfo, ModelRequest, PromptCut,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A wait after which the loop calls a fallback model, where there is one.
const FALLBACK_WAIT_MS: u64 = 2_001;

/// A wait that gives the job back to the queue.
const QUEUE_WAIT_MS: u64 = 30_001;

/// Answers as the recording goes on at the place where the log is.
pub(super) struct CheckingModel {
    store: Arc<ReplayStore>,
    infos: Vec<ModelInfo>,
}

impl CheckingModel {
    /// A model of these facts, such as windows and prices.
    pub(super) fn new(store: Arc<ReplayStore>, infos: Vec<ModelInfo>) -> Self {
        Self { store, infos }
    }

    /// Where the log is.
    fn place(&self) -> usize {
        self.store.log().len()
    }

    fn recording(&self) -> Arc<RunRecording> {
        Arc::clone(self.store.log().recording())
    }

    /// Streams the recorded pieces, each as a record of its own, up to the end of the answer.
    fn stream(&self, sink: ChunkSink<'_>) -> Result<Completion, ModelError> {
        let recording = self.recording();
        let mut pieces = RecordedPieces::default();
        loop {
            let place = self.place();
            let Some(chunk) = recording.event_at(place).and_then(|event| pieces.of(event)) else {
                return self.end(&recording, place, sink);
            };
            if sink(chunk).is_break() || sink(Chunk::CaughtUp).is_break() || self.place() == place {
                return Err(ModelError::Stopped);
            }
        }
    }

    /// The end of the answer, as the records behind its pieces show it.
    fn end(
        &self,
        recording: &RunRecording,
        mut place: usize,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        let mut tool_calls: Vec<ToolCall> = Vec::new();
        while let Some(Event::StepDiscarded { .. }) = recording.event_at(place) {
            place = place.saturating_add(1);
        }
        while let Some(Event::ToolCall { call, .. }) = recording.event_at(place) {
            tool_calls.push(call.clone());
            place = place.saturating_add(1);
        }
        match recording.mark_at(place) {
            Some(EngineMark::ModelFinished {
                finish_reason,
                usage,
                echo,
                stop_sequence,
                response_model,
                ..
            }) => {
                spend(*usage, sink);
                let (echo, stop_sequence) = (echo.clone(), stop_sequence.clone());
                let whole = Completion::new(tool_calls, *finish_reason);
                Ok(Completion { stop_sequence, echo, response_model: response_model.clone(), ..whole })
            }
            _ => Err(self.failure(recording, place, sink)),
        }
    }

    /// Why the answer has no end: a failed call, a provider that is busy, or an interruption.
    fn failure(&self, recording: &RunRecording, place: usize, sink: ChunkSink<'_>) -> ModelError {
        let behind = place.saturating_add(1);
        match recording.mark_at(place) {
            Some(mark @ EngineMark::ModelFailed { usage, .. }) => {
                spend(*usage, sink);
                let is_queued = matches!(recording.mark_at(behind), Some(EngineMark::Deferred));
                return failed(mark, is_queued);
            }
            Some(EngineMark::Deferred) => {
                let message = match recording.event_at(behind) {
                    Some(Event::Status { reason: Some(reason), .. }) => without_place(reason).to_owned(),
                    _ => String::new(),
                };
                return ModelError::Busy { message, retry_after_ms: 1 };
            }
            Some(EngineMark::Spent { usage, .. }) => {
                if let Some(interruption) = recording.interruption(behind) {
                    spend(*usage, sink);
                    self.store.log().interrupt(interruption, true);
                    return ModelError::Stopped;
                }
            }
            _ => {}
        }
        let mut log = self.store.log();
        match recording.interruption(place) {
            Some(interruption) => log.interrupt(interruption, true),
            None => log.differ(None),
        }
        ModelError::Stopped
    }

    /// The text of a summary or of a title.
    fn side_text(&self, sink: ChunkSink<'_>) -> Result<Completion, ModelError> {
        let (recording, place) = (self.recording(), self.place());
        let Some(EngineMark::Spent { usage, .. }) = recording.mark_at(place) else {
            return Err(self.side_failure(&recording, place, sink));
        };
        let behind = place.saturating_add(1);
        let text = match recording.event_at(behind) {
            Some(Event::Summary { content, is_stub: false, .. }) => Some(content.clone()),
            Some(Event::Done { suggested_title, .. }) => suggested_title.clone(),
            _ => None,
        };
        let Some(text) = text else {
            spend(*usage, sink);
            return Err(self.side_failure(&recording, behind, sink));
        };
        if sink(Chunk::Text(&text)).is_break() {
            return Err(ModelError::Stopped);
        }
        spend(*usage, sink);
        Ok(Completion::new(Vec::new(), crate::domain::event::FinishReason::Stop))
    }

    fn side_failure(&self, recording: &RunRecording, place: usize, sink: ChunkSink<'_>) -> ModelError {
        match recording.event_at(place) {
            Some(Event::Summary { .. } | Event::Done { .. }) => {
                ModelError::Refused("the recorded call failed".to_owned())
            }
            _ => self.failure(recording, place, sink),
        }
    }
}

impl Model for CheckingModel {
    fn ask(
        &self,
        request: &ModelRequest,
        _: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        if is_side_call(request) { self.side_text(sink) } else { self.stream(sink) }
    }

    /// Prices are not in the log, so a recorded end for the want of one counts.
    fn models(&self) -> Vec<ModelInfo> {
        let mut infos = self.infos.clone();
        if let Some(Event::Error { code: FailureCode::MaxCost, content, .. }) =
            self.recording().event_at(self.place())
        {
            let lacks = |info: &&mut ModelInfo| *content == unpriced_text(&info.id);
            infos.iter_mut().filter(lacks).for_each(|info| info.price = None);
        }
        infos
    }

    /// Windows and the sizes of tools are not in the log, so the recorded cut counts.
    fn prompt_cut(&self) -> PromptCut {
        let (recording, place) = (self.recording(), self.place());
        let is_paid = matches!(recording.mark_at(place), Some(EngineMark::Spent { .. }));
        match recording.event_at(place.saturating_add(usize::from(is_paid))) {
            Some(Event::Summary { kept_messages, omitted_messages, .. }) => {
                PromptCut::At { kept_history: *kept_messages, omitted_job_messages: *omitted_messages }
            }
            _ => PromptCut::Never,
        }
    }
}

/// Gives the recorded answers one after the other, whatever is asked.
pub(super) struct SequenceModel {
    recording: Arc<RunRecording>,
    /// The next answer, from 1.
    next: AtomicU32,
    infos: Vec<ModelInfo>,
}

impl SequenceModel {
    /// A model that begins with this answer.
    pub(super) fn new(recording: Arc<RunRecording>, first: u32, infos: Vec<ModelInfo>) -> Self {
        Self { recording, next: AtomicU32::new(first), infos }
    }
}

impl Model for SequenceModel {
    fn ask(
        &self,
        request: &ModelRequest,
        _: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        if is_side_call(request) {
            return Err(ModelError::Refused("summaries and titles are not replayed".to_owned()));
        }
        let over = |_| ModelError::Refused("the recording has no further answer".to_owned());
        let begin = self.recording.begin_of_step(self.next.fetch_add(1, Ordering::SeqCst)).map_err(over)?;
        let (mut tool_calls, mut was_thinking) = (Vec::new(), false);
        let mut pieces = RecordedPieces::default();
        for record in self.recording.records.iter().skip(begin) {
            let flow = match record {
                // The text that turned out to be reasoning follows as such.
                Record::Event(Event::Delta { .. }) if std::mem::take(&mut was_thinking) => continue,
                Record::Event(
                    event @ (Event::Delta { .. } | Event::CallBegun { .. } | Event::StepDiscarded { .. }),
                ) => match pieces.of(event) {
                    Some(chunk) => {
                        was_thinking |= chunk == Chunk::TextWasThinking;
                        sink(chunk)
                    }
                    None => ControlFlow::Continue(()),
                },
                Record::Event(Event::ToolCall { call, .. }) => {
                    tool_calls.push(call.clone());
                    ControlFlow::Continue(())
                }
                Record::Mark(EngineMark::ModelFinished { finish_reason, usage, stop_sequence, .. }) => {
                    spend(*usage, sink);
                    let (whole, stop_sequence) =
                        (Completion::new(tool_calls, *finish_reason), stop_sequence.clone());
                    return Ok(Completion { stop_sequence, ..whole });
                }
                Record::Mark(mark @ EngineMark::ModelFailed { usage, .. }) => {
                    spend(*usage, sink);
                    return Err(failed(mark, false));
                }
                _ => break,
            };
            if flow.is_break() {
                break;
            }
        }
        Err(ModelError::Stopped)
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.infos.clone()
    }
}

/// Whether a summary or a title is wanted. The closing answer of a job may call no tools, either, but its
/// prompt has the steps so far.
fn is_side_call(request: &ModelRequest) -> bool {
    let is_step = |message: &Message| matches!(message, Message::Assistant { .. } | Message::Tool { .. });
    request.tools.is_empty() && !request.may_call && !request.messages.iter().any(is_step)
}

/// Reports usage, unless the call used nothing.
fn spend(usage: Usage, sink: ChunkSink<'_>) {
    if usage != Usage::default() {
        // The answer ends here anyway.
        let _control_flow = sink(Chunk::Spent(usage));
    }
}

/// The error that a recorded failure stands for. `is_queued`: the job went back to the queue after it.
fn failed(mark: &EngineMark, is_queued: bool) -> ModelError {
    let EngineMark::ModelFailed { message, code, retryable, elsewhere, .. } = mark else {
        return ModelError::Stopped;
    };
    let wait_ms = if is_queued { QUEUE_WAIT_MS } else { FALLBACK_WAIT_MS };
    let (text, retry_after_ms) = (without_place(message).to_owned(), elsewhere.then_some(wait_ms));
    match code {
        FailureCode::ModelNotFound => match unknown_model(message) {
            Some(model) => ModelError::NotFound(model.to_owned()),
            None => ModelError::UnknownModel(text),
        },
        FailureCode::OutputTooLarge => ModelError::TooLarge(text),
        FailureCode::ContextTooLong => ModelError::ContextTooLong(text),
        FailureCode::InvalidRequest => ModelError::Refused(text),
        FailureCode::ContentFilter => ModelError::Filtered(text),
        FailureCode::RateLimited => ModelError::RateLimited { message: text, retry_after_ms },
        _ if *retryable => ModelError::Unavailable { message: text, retry_after_ms },
        _ if *elsewhere => ModelError::Denied(text),
        _ => ModelError::Stopped,
    }
}

/// The model in the message of one that is not configured.
fn unknown_model(message: &str) -> Option<&str> {
    message.strip_prefix("model '")?.strip_suffix("' is not configured")
}

/// The message without the model and the host before it.
fn without_place(message: &str) -> &str {
    let is_place = |place: &str| place.starts_with("model '");
    message.split_once(": ").filter(|(place, _)| is_place(place)).map_or(message, |(_, text)| text)
}

/// The hosts in the messages of failed calls, by model.
pub(super) fn recorded_host(recording: &RunRecording, model: &str) -> Option<String> {
    let begin = format!("model '{model}' at ");
    let host = |message: &str| {
        let (host, _) = message.strip_prefix(&begin)?.split_once(": ")?;
        Some(host.to_owned())
    };
    recording.records.iter().find_map(|record| match record {
        Record::Mark(EngineMark::ModelFailed { message, .. }) => host(message),
        Record::Event(Event::Status { reason: Some(reason), .. }) => host(reason),
        _ => None,
    })
}
