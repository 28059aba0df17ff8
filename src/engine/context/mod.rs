//! What a model is sent: standing instructions, the conversation so far, the job's input, and what the job has said and
//! done. Owns the order of the parts and what stands for those that are left out; pure: refuses to ask a model for a
//! summary (`aside` does).

mod cut;
mod mend;
mod transcript;

pub(in crate::engine) use cut::{Cut, Room};
pub(in crate::engine) use transcript::transcript;

use super::turn::{Shortened, Turn};
use crate::domain::attachment::Attachment;
use crate::domain::job::{ConversationSummary, History, JobSpec};
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;

/// What a model is told when its answer was cut at its bound.
const GO_ON: &str = "Your answer was cut off because it reached the length limit. Go on exactly where it stops. \
                     Repeat nothing, and do not comment on the interruption.";

/// Everything that was there before the job said its first word.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Opening {
    system_prompt: Option<String>,
    /// What stands for the turns before `earlier`, from an earlier job.
    summary: Option<String>,
    /// History and input, oldest first.
    earlier: Vec<Message>,
    /// Where each turn of the history ends in `earlier`, with its number.
    ends: Vec<(usize, u64)>,
    /// Whether the conversation has no title yet.
    wants_title: bool,
}

impl Opening {
    /// Of a job with this history.
    pub(in crate::engine) fn new(spec: &JobSpec, history: History) -> Self {
        let History { summary, turns, wants_title } = history;
        let (mut earlier, mut ends) = (Vec::new(), Vec::new());
        for turn in turns {
            earlier.extend(turn.messages);
            ends.push((earlier.len(), turn.number));
        }
        earlier.extend(spec.input.iter().cloned());
        Self { system_prompt: spec.system_prompt.clone(), summary, earlier, ends, wants_title }
    }

    /// Whether the conversation had no title when the job began its run.
    pub(in crate::engine) fn wants_title(&self) -> bool {
        self.wants_title
    }

    /// The messages of the next request. `goes_on`: the last answer was cut and has to be continued.
    pub(in crate::engine) fn messages(&self, turn: &Turn, goes_on: bool) -> Vec<Message> {
        let shortened = turn.shortened();
        let (kept, said) = shortened.map_or((self.earlier.len(), 0), |s| (s.kept, s.said));
        let first = self.first_kept(kept);
        let standing = self.earlier.iter().take(first).filter(|m| matches!(m, Message::System { .. }));
        let told = turn.messages().iter().skip(said);
        let spoken = self.earlier.iter().skip(first).chain(told).cloned();
        let spoken = mend::mend(spoken);
        let system = self.system_prompt.iter().map(|content| Message::System { content: content.clone() });
        let mut messages: Vec<Message> = system.chain(standing.cloned()).collect();
        match shortened.map(|s| s.content.as_str()).or(self.summary.as_deref()) {
            Some(summary) => messages.extend(with_summary(summary, spoken)),
            None => messages.extend(spoken),
        }
        if goes_on {
            messages.push(Message::user(GO_ON));
        }
        messages
    }

    /// What the conversation keeps instead of its oldest turns when the job ends now: those that the shortened context
    /// leaves out whole.
    pub(in crate::engine) fn summary_of(&self, shortened: Option<&Shortened>) -> Option<ConversationSummary> {
        let shortened = shortened.filter(|shortened| !shortened.is_stub)?;
        let first = self.first_kept(shortened.kept);
        let (_, through) = self.ends.iter().rev().find(|(end, _)| *end <= first)?;
        Some(ConversationSummary { content: shortened.content.clone(), through: *through })
    }

    /// What every prompt holds, whatever is cut: the instructions.
    pub(in crate::engine) fn standing_tokens(&self, estimator: &TokenEstimator) -> u64 {
        let system = self.system_prompt.as_deref().map_or(0, |text| estimator.text(text));
        let within = self.earlier.iter().filter(|message| matches!(message, Message::System { .. }));
        system.saturating_add(estimator.messages(within))
    }

    /// The index of the first message that is kept when the newest `kept` are.
    fn first_kept(&self, kept: usize) -> usize {
        self.earlier.len().saturating_sub(kept)
    }
}

/// The summary as a word of the user in front of the rest, within its first message where that is the user's: some
/// providers want the roles to alternate.
fn with_summary(summary: &str, spoken: Vec<Message>) -> Vec<Message> {
    let preface = format!("[What was said before, in short]\n{summary}\n[End of what was said before]");
    let mut rest = spoken.into_iter().peekable();
    let first = match rest.next_if(|message| matches!(message, Message::User { .. })) {
        Some(Message::User { content, attachments }) => prefaced(&preface, &content, attachments),
        _ => Message::user(preface),
    };
    std::iter::once(first).chain(rest).collect()
}

fn prefaced(preface: &str, content: &str, attachments: Vec<Attachment>) -> Message {
    Message::User { content: format!("{preface}\n\n{content}"), attachments }
}

#[cfg(test)]
mod tests;
