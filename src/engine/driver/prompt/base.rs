//! The common part of a job's prompts: instructions, history and input, which exist before the job's first
//! answer.

use super::repair;
use crate::domain::event::FinishReason;
use crate::domain::job::{ConversationSummary, History, JobSpec};
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;
use crate::engine::turn::{RefusedAnswer, ShortenedContext, TurnState};

/// The user message that continues a truncated answer.
pub(super) const CONTINUE: &str = "Your answer was cut off because it reached the length limit. Go on exactly where it stops. \
                     Repeat nothing, and do not comment on the interruption.";

/// What the model has to know about its last call, whatever it has been told before.
const CLOSING: &str = "This is the last call of this job: no tool runs any more. Answer now, without tools: say \
                       what was found and done, and what is still open.";

/// The instruction at the end of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum FinalInstruction {
    /// There is none.
    None,
    /// Continue the truncated answer.
    Continue,
    /// Answer without tools, for this reason.
    AnswerNow(FinishReason),
}

impl FinalInstruction {
    /// The instruction of a call.
    pub(in crate::engine) fn of_call(closing: Option<FinishReason>, continues: bool) -> Self {
        match closing {
            _ if continues => Self::Continue,
            Some(reason) => Self::AnswerNow(reason),
            None => Self::None,
        }
    }
}

/// The messages that exist before the job's first answer.
#[derive(Debug, Clone)]
pub(in crate::engine) struct PromptBase {
    system_prompt: Option<String>,
    /// The summary of the turns before `earlier`, from an earlier job.
    pub(super) summary: Option<String>,
    /// History and input, oldest first.
    pub(super) earlier: Vec<Message>,
    /// The end of each turn of the history in `earlier`, and its number.
    turn_ends: Vec<(usize, u64)>,
    /// Whether the conversation has no title yet.
    wants_title: bool,
}

impl PromptBase {
    /// The base of a job with this history. The preamble stands before the job's system prompt.
    pub(in crate::engine) fn new(spec: &JobSpec, history: History, preamble: Option<String>) -> Self {
        let History { summary, turns, wants_title } = history;
        let (mut earlier, mut turn_ends) = (Vec::new(), Vec::new());
        for turn in turns {
            earlier.extend(turn.messages);
            turn_ends.push((earlier.len(), turn.number));
        }
        earlier.extend(spec.input.iter().cloned());
        // One message: some providers accept only one of them.
        let parts: Vec<String> = preamble.into_iter().chain(spec.system_prompt.clone()).collect();
        let system_prompt = (!parts.is_empty()).then(|| parts.join("\n\n"));
        Self { system_prompt, summary, earlier, turn_ends, wants_title }
    }

    /// Whether the conversation had no title when the job began its run.
    pub(in crate::engine) fn wants_title(&self) -> bool {
        self.wants_title
    }

    /// The messages of the next request.
    pub(in crate::engine) fn messages(
        &self,
        turn: &TurnState,
        instruction: FinalInstruction,
    ) -> Vec<Message> {
        let shortened = turn.shortened();
        let (kept_history, omitted) =
            shortened.map_or((self.earlier.len(), 0), |s| (s.kept_history, s.omitted_job_messages));
        let first = self.first_kept(kept_history);
        let instructions = self.earlier.iter().take(first).filter(|m| matches!(m, Message::System { .. }));
        let job_messages = turn.messages().iter().skip(omitted);
        let conversation = self.earlier.iter().skip(first).chain(job_messages).cloned();
        let conversation = repair::repair_calls(conversation);
        let system = self.system_prompt.iter().map(|content| Message::System { content: content.clone() });
        let mut messages: Vec<Message> = system.chain(instructions.cloned()).collect();
        match shortened.map(|s| s.content.as_str()).or(self.summary.as_deref()) {
            Some(summary) => messages.extend(with_summary(summary, conversation)),
            None => messages.extend(conversation),
        }
        messages.extend(turn.refused().into_iter().flat_map(RefusedAnswer::messages));
        match instruction {
            FinalInstruction::None => {}
            FinalInstruction::Continue => messages.push(Message::user(CONTINUE)),
            FinalInstruction::AnswerNow(reason) => instruct_to_answer(&mut messages, reason),
        }
        messages
    }

    /// The summary that the conversation keeps instead of the turns which the shortened context leaves out
    /// entirely.
    pub(in crate::engine) fn summary_of(
        &self,
        shortened: Option<&ShortenedContext>,
    ) -> Option<ConversationSummary> {
        let shortened = shortened.filter(|shortened| !shortened.is_stub)?;
        let first = self.first_kept(shortened.kept_history);
        let (_, through) = self.turn_ends.iter().rev().find(|(end, _)| *end <= first)?;
        Some(ConversationSummary { content: shortened.content.clone(), through: *through })
    }

    /// Tokens of the instructions, which no cut removes.
    pub(in crate::engine) fn instruction_tokens(&self, estimator: &TokenEstimator) -> u64 {
        let system = self.system_prompt.as_deref().map_or(0, |text| estimator.text(text));
        let in_messages = self.earlier.iter().filter(|message| matches!(message, Message::System { .. }));
        system.saturating_add(estimator.messages(in_messages))
    }

    /// The index of the first message that stays if the newest `kept` messages stay.
    pub(super) fn first_kept(&self, kept: usize) -> usize {
        self.earlier.len().saturating_sub(kept)
    }
}

/// Tells the model that this call is the last one. The instruction stands at the end of the newest result or
/// question: a further user message after a result breaks templates that want alternating roles.
fn instruct_to_answer(messages: &mut Vec<Message>, reason: FinishReason) {
    let cause = match reason {
        FinishReason::RepeatedFailure => "The same tool call has failed again and again. ",
        FinishReason::MaxSteps => "All rounds of tool calls that this job may make are used up. ",
        FinishReason::Stop | FinishReason::Length | FinishReason::ToolCalls | FinishReason::ContentFilter => {
            ""
        }
    };
    let note = format!("[Note of the server: {cause}{CLOSING}]");
    match messages.last_mut() {
        Some(Message::Tool { content, .. } | Message::User { content, .. }) => {
            content.push_str("\n\n");
            content.push_str(&note);
        }
        _ => messages.push(Message::user(note)),
    }
}

/// Puts the summary into the first user message, or in front of the rest as one: some providers want
/// alternating roles.
fn with_summary(summary: &str, conversation: Vec<Message>) -> Vec<Message> {
    let preface = format!("[What was said before, in short]\n{summary}\n[End of what was said before]");
    let mut rest = conversation.into_iter().peekable();
    let first = match rest.next_if(|message| matches!(message, Message::User { .. })) {
        Some(Message::User { content, attachments, mut images }) => {
            let before = format!("{preface}\n\n");
            for offset in images.iter_mut().filter_map(|image| image.text_offset_bytes.as_mut()) {
                *offset = offset.saturating_add(before.len());
            }
            Message::User { content: before + &content, attachments, images }
        }
        _ => Message::user(preface),
    };
    std::iter::once(first).chain(rest).collect()
}
