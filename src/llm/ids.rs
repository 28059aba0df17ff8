//! The ids of tool calls. Owns that no two calls of a conversation bear the same one.

use crate::domain::message::Message;
use std::collections::HashSet;

/// A provider's own id is kept up to this length, bytes.
const ID_BYTES: usize = 256;

/// The ids that are taken.
#[derive(Debug)]
pub(super) struct Ids {
    taken: HashSet<String>,
    minted: usize,
}

impl Ids {
    /// Those of the calls in this history.
    pub(super) fn of(history: &[Message]) -> Self {
        let calls = history.iter().filter_map(|message| match message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls),
            _ => None,
        });
        let taken: HashSet<String> = calls.flatten().map(|call| call.id_ref.clone()).collect();
        Self { minted: taken.len(), taken }
    }

    /// The provider's id when it is one and still free, else a new one: some providers count from 0 in every answer,
    /// or name no ids at all.
    pub(super) fn give(&mut self, id: String) -> String {
        let mut id = if id.len() > ID_BYTES { String::new() } else { id };
        while id.is_empty() || !self.taken.insert(id.clone()) {
            id = format!("call_{}", self.minted);
            self.minted = self.minted.saturating_add(1);
        }
        id
    }
}
