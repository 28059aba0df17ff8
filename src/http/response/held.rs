//! Answers whose memory counts: what is read for one, and its text until it is sent, is a share of
//! `limits.answers_bytes` of the client that asked.

use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::{HttpResponse, OwnBytes, prepared};
use crate::http::shares::{HeldShare, ShareOwner, ShareRefusal};
use crate::ports::StoreError;
use bytes::Bytes;
use serde::Serialize;
use std::io;

/// Answers up to this size may use the reserve of the budget. Larger ones take as much at once.
const SMALL_BYTES: usize = 64 * 1024;
/// Least bytes that are taken at once.
const LEAST_BYTES: usize = 1024;

/// The memory of one answer.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    share: HeldShare,
    taken: usize,
    /// Bytes that were taken and are not used yet.
    free: usize,
    refusal: Option<ApiError>,
}

impl AnswerMemory {
    /// Memory for an answer to this request; nothing is taken yet.
    pub(crate) fn of(context: &ServerContext, request: &RequestContext) -> Self {
        Self::of_owner(context, request.owner)
    }

    fn of_owner(context: &ServerContext, owner: Option<ShareOwner>) -> Self {
        Self { share: HeldShare::new(&context.answers, owner), taken: 0, free: 0, refusal: None }
    }

    /// The share of a response that was made without one, until it is sent. Small ones need none.
    pub(crate) fn of_response(
        context: &ServerContext,
        owner: Option<ShareOwner>,
        response: &HttpResponse,
    ) -> Result<Option<HeldShare>, ApiError> {
        let Some(OwnBytes(bytes)) = response.extensions().get().copied() else { return Ok(None) };
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let mut memory = Self::of_owner(context, owner);
        memory.take(bytes)?;
        Ok(Some(memory.share))
    }

    /// Nothing yet, of the same client.
    fn another(&self) -> Self {
        Self { share: self.share.another(), taken: 0, free: 0, refusal: None }
    }

    /// Takes so many bytes more.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes > self.free {
            // As much as before, so that the budget is asked seldom.
            let more = bytes.saturating_sub(self.free).max(self.taken.clamp(LEAST_BYTES, SMALL_BYTES));
            self.share.grow(more, SMALL_BYTES).map_err(|refusal| self.refused(refusal))?;
            self.taken = self.taken.saturating_add(more);
            self.free = self.free.saturating_add(more);
        }
        self.free = self.free.saturating_sub(bytes);
        Ok(())
    }

    /// The same for a read of the store, which [`AnswerMemory::of_read`] ends.
    pub(crate) fn take_read(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.take(bytes).map_err(|refusal| {
            self.refusal = Some(refusal);
            StoreError::Busy
        })
    }

    /// The outcome of a read: that it was ended by a refusal of memory is not an error of the store.
    pub(crate) fn of_read<T, E: Into<ApiError>>(&mut self, read: Result<T, E>) -> Result<T, ApiError> {
        read.map_err(|error| self.refusal.take().unwrap_or_else(|| error.into()))
    }

    /// JSON with its own memory; that of what it was made of is returned. Blocks.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<HeldText, ApiError> {
        let mut writer = HeldText { text: Vec::new(), memory: self.another() };
        match serde_json::to_writer(&mut writer, value) {
            Ok(()) => {
                writer.text.push(b'\n'); // a terminal's prompt starts on its own line
                Ok(writer)
            }
            Err(error) => Err(writer.memory.refusal.take().unwrap_or_else(|| {
                tracing::error!(%error, "an answer cannot be written as JSON");
                ApiError::Internal
            })),
        }
    }

    fn refused(&self, refusal: ShareRefusal) -> ApiError {
        let whole = self.share.budget().whole();
        match refusal {
            ShareRefusal::Full => ApiError::AnswersFull(whole),
            ShareRefusal::Share => ApiError::TooMany {
                message: format!(
                    "the answers that you read fill your share of limits.answers_bytes = {whole} bytes; read fewer at the \
                     same time, or a large one as events of its job, and try again"
                ),
                retry_after_s: 1,
            },
        }
    }
}

/// A text that counts until it is sent.
#[derive(Debug)]
pub(crate) struct HeldText {
    text: Vec<u8>,
    memory: AnswerMemory,
}

impl HeldText {
    /// The response with this text.
    pub(crate) fn into_response(self) -> HttpResponse {
        prepared(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl io::Write for HeldText {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.memory.take_read(text.len()).map_err(io::Error::other)?;
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::http::shares::SharedBudget;
    use std::sync::Arc;

    fn memory(budget: &Arc<SharedBudget>, user: u32) -> AnswerMemory {
        let share = HeldShare::new(budget, Some(ShareOwner::User(UserId(user))));
        AnswerMemory { share, taken: 0, free: 0, refusal: None }
    }

    #[test]
    fn p7_a_user_holds_no_more_of_the_memory_for_answers_than_it_leaves_free() {
        let budget = SharedBudget::new(1 << 20, 0, 1 << 17);
        let mut eve = memory(&budget, 1);
        assert!(matches!(eve.take(600_000), Err(ApiError::TooMany { .. })));
        assert!(eve.take(500_000).is_ok());
        assert!(memory(&budget, 2).take(200_000).is_ok(), "another user");
        assert!(matches!(eve.take(700_000), Err(ApiError::AnswersFull(_))));
        drop(eve);
        assert!(memory(&budget, 1).take(500_000).is_ok(), "what is sent is returned");
    }

    #[test]
    fn a_text_holds_its_memory_until_it_is_sent_and_what_it_was_made_of_does_not() {
        let budget = SharedBudget::new(1 << 20, 0, 0);
        let mut first = memory(&budget, 1);
        first.take(300_000).expect("free");
        let text = first.json(&"x".repeat(100_000)).expect("room");
        assert_eq!(text.as_ref().len(), 100_003);
        assert!(
            matches!(memory(&budget, 1).take(500_000), Err(ApiError::TooMany { .. })),
            "it is not sent yet"
        );
        assert!(memory(&budget, 1).take(300_000).is_ok(), "the fold is gone");
        drop(text.into_response());
        assert!(memory(&budget, 1).take(500_000).is_ok());
    }

    #[test]
    fn a_refusal_of_memory_is_no_error_of_the_store() {
        let budget = SharedBudget::new(1 << 20, 0, 0);
        let mut refused = memory(&budget, 1);
        let read = refused.take_read(1 << 21);
        assert_eq!(read, Err(StoreError::Busy));
        assert!(matches!(refused.of_read(read), Err(ApiError::AnswersFull(_))));
        let lost = refused.of_read(Err::<(), _>(StoreError::Closed));
        assert!(matches!(lost, Err(ApiError::Store(StoreError::Closed))));
    }
}
