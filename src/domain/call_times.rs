//! When calls of models and tools began and ended, as the engine notes it in a job's log.

use super::event::{EngineMark, Event, Record};
use serde::{Deserialize, Serialize};

/// Start and end of a model call by the wall clock. Logs of early versions have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Unix milliseconds. Waits for a rate limit are part of the call.
    pub started_at_ms: u64,
    /// Unix milliseconds; not before the start, unless somebody has set the clock back.
    pub ended_at_ms: u64,
}

impl Record {
    /// The record with these times, if it is the end of a model call.
    #[must_use]
    pub fn with_model_times(mut self, of_call: Option<CallTimes>) -> Self {
        if let Self::Mark(EngineMark::ModelFinished { times, .. } | EngineMark::ModelFailed { times, .. }) =
            &mut self
        {
            *times = of_call;
        }
        self
    }

    /// The record with the end of this tool call, if it holds the call's result and no end yet.
    #[must_use]
    pub fn with_tool_end(mut self, call: &str, at_ms: u64) -> Self {
        if let Self::Event(Event::ToolResult { id_ref, ended_at_ms, .. })
        | Self::Mark(EngineMark::ToolFinished { id_ref, ended_at_ms, .. }) = &mut self
            && id_ref == call
        {
            ended_at_ms.get_or_insert(at_ms);
        }
        self
    }

    /// The record with the times of another one of its kind. Others stay as they are.
    #[must_use]
    pub fn with_times_of(mut self, other: &Self) -> Self {
        use EngineMark::{ModelFailed, ModelFinished, ToolFinished};
        match (&mut self, other) {
            (
                Self::Mark(ModelFinished { times, .. } | ModelFailed { times, .. }),
                Self::Mark(ModelFinished { times: others, .. } | ModelFailed { times: others, .. }),
            ) => *times = *others,
            (
                Self::Event(Event::ToolResult { ended_at_ms, .. })
                | Self::Mark(ToolFinished { ended_at_ms, .. }),
                Self::Event(Event::ToolResult { ended_at_ms: others, .. })
                | Self::Mark(ToolFinished { ended_at_ms: others, .. }),
            ) => *ended_at_ms = *others,
            _ => {}
        }
        self
    }
}
