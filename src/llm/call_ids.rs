//! The ids of tool calls: unique within a conversation.

use crate::domain::message::Message;
use std::collections::HashSet;

/// The longest provider id that is kept, bytes.
const ID_BYTES: usize = 256;

/// The ids in use.
#[derive(Debug)]
pub(super) struct CallIds {
    taken: HashSet<String>,
    generated: usize,
}

impl CallIds {
    /// The ids of the calls in this history.
    pub(super) fn of(history: &[Message]) -> Self {
        let calls = history.iter().filter_map(|message| match message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls),
            _ => None,
        });
        let taken: HashSet<String> = calls.flatten().map(|call| call.id_ref.clone()).collect();
        Self { generated: taken.len(), taken }
    }

    /// The provider's id if it is unused, else a new one: some providers count from 0 in every answer or send
    /// no ids.
    pub(super) fn assign(&mut self, id: String) -> String {
        let mut id = if id.len() > ID_BYTES { String::new() } else { id };
        while id.is_empty() || !self.taken.insert(id.clone()) {
            id = format!("call_{}", self.generated);
            self.generated = self.generated.saturating_add(1);
        }
        id
    }
}
