//! The simulated model: it streams, thinks, calls tools, fails in every way, and hangs until it is
//! cancelled. A message `call NAME NAME …` gets exactly these calls, then a text.

use super::process_faults::ProcessFaults;
use super::world::World;
use nanoclaw::domain::event::FinishReason;
use nanoclaw::domain::message::Message;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    CancelToken, Chunk, ChunkSink, Completion, Model, ModelError, ModelInfo, ModelRequest,
};
use std::sync::Arc;
use std::time::Duration;

/// All tools.
pub(crate) const TOOLS: [&str; 5] = ["pure", "effect", "sandbox", "network", "guarded"];
/// Checks of the cancel token before a hanging model gives up.
const HANGS: u32 = 30;

/// The model of one process.
pub(crate) struct SimModel {
    world: Arc<World>,
    faults: Arc<ProcessFaults>,
}

impl SimModel {
    pub(crate) fn new(world: &Arc<World>, faults: &Arc<ProcessFaults>) -> Self {
        Self { world: Arc::clone(world), faults: Arc::clone(faults) }
    }

    fn say(&self, pieces: u64, cancel: &CancelToken, sink: ChunkSink<'_>) -> Result<(), ModelError> {
        let thoughts = self.world.roll(2);
        for number in 0..pieces {
            self.world.point();
            let text = format!("piece {number} ");
            let chunk = if number < thoughts { Chunk::Thinking(&text) } else { Chunk::Text(&text) };
            if self.faults.is_dead() || cancel.is_cancelled() || sink(chunk).is_break() {
                return Err(ModelError::Stopped);
            }
            if self.world.chance(2) && sink(Chunk::CaughtUp).is_break() {
                return Err(ModelError::Stopped);
            }
        }
        Ok(())
    }

    fn hang(&self, cancel: &CancelToken) -> Result<Completion, ModelError> {
        for _ in 0..HANGS {
            self.world.point();
            if self.faults.is_dead() || cancel.is_cancelled() {
                return Err(ModelError::Stopped);
            }
            cancel.sleep(Duration::from_secs(4));
        }
        Err(ModelError::Refused("it hangs".to_owned()))
    }

    fn calls(&self, request: &ModelRequest) -> Vec<ToolCall> {
        if request.tools.is_empty() || self.world.chance(2) {
            return Vec::new();
        }
        let call = |number: u64| {
            let name = TOOLS[usize::try_from(self.world.roll(5)).unwrap()];
            // Some providers send no id, or count from zero in every answer.
            let id_ref = if self.world.chance(4) { String::new() } else { format!("call_{number}") };
            ToolCall { id_ref, name: name.to_owned(), arguments: "{}".to_owned() }
        };
        (0..=self.world.roll(3)).map(call).collect()
    }
}

impl Model for SimModel {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        if self.faults.is_dead() {
            return Err(ModelError::Stopped);
        }
        if let Some(calls) = scripted(request) {
            self.say(2, cancel, sink)?;
            spend(sink);
            return Ok(completion(calls));
        }
        let mood = if self.world.is_calm() { u64::MAX } else { self.world.roll(24) };
        match mood {
            0 => {
                let retry_after_ms = self.world.chance(2).then_some(2_000);
                Err(ModelError::Unavailable { message: "busy".to_owned(), retry_after_ms })
            }
            1 => {
                self.say(2, cancel, sink)?;
                Err(ModelError::Unavailable { message: "broke off".to_owned(), retry_after_ms: None })
            }
            2 => Err(match self.world.roll(2) {
                0 => ModelError::Refused("no".to_owned()),
                _ => ModelError::ContextTooLong("too long".to_owned()),
            }),
            3 => {
                self.say(3, cancel, sink)?;
                Err(ModelError::TooLarge("too much".to_owned()))
            }
            4 | 5 => self.hang(cancel),
            7 => Err(ModelError::Busy { message: "full".to_owned(), retry_after_ms: 3_000 }),
            // A bug; `resume_unwind` prints no panic message.
            6 => std::panic::resume_unwind(Box::new("a bug in the model's wire")),
            _ => {
                // A calm world gives no empty answers, because these are retried and then fail the job.
                let floor = u64::from(self.world.is_calm());
                self.say(self.world.roll(4).max(floor), cancel, sink)?;
                self.world.point();
                spend(sink);
                Ok(completion(self.calls(request)))
            }
        }
    }

    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }
}

/// The scripted calls at this point of the job, if it has a script.
fn scripted(request: &ModelRequest) -> Option<Vec<ToolCall>> {
    let is_user = |message: &&Message| matches!(message, Message::User { .. });
    let Some(Message::User { content, .. }) = request.messages.iter().rfind(is_user) else { return None };
    let names = content.strip_prefix("call ")?;
    if matches!(request.messages.last(), Some(Message::Tool { .. })) {
        return Some(Vec::new());
    }
    let call = |(number, name): (usize, &str)| ToolCall {
        id_ref: format!("call_{number}"),
        name: name.to_owned(),
        arguments: "{}".to_owned(),
    };
    Some(names.split(' ').enumerate().map(call).collect())
}

/// Reports the usage of the call; the answer has ended, so the sink's reply does not matter.
fn spend(sink: ChunkSink<'_>) {
    let _over = sink(Chunk::Spent(Usage::new(10, 5)));
}

fn completion(tool_calls: Vec<ToolCall>) -> Completion {
    let finish_reason = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Completion::new(tool_calls, finish_reason)
}
