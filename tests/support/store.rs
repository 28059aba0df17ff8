//! Shared by the tests of the store: a manual clock, small jobs, and short constructors.

use super::disk::{Disk, Syncs};
use nanoclaw::domain::conversation::{Conversation, ConversationSettings};
use nanoclaw::domain::event::{EngineMark, Event, FailureCode, FinishReason, Record, StepKind};
use nanoclaw::domain::id::{ConversationId, JobId, UserId};
use nanoclaw::domain::job::{JobOutcome, JobSpec};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::log_chain::{LogRecord, RecordPlace};
use nanoclaw::domain::message::Message;
use nanoclaw::domain::run::{EndedRun, ImportedRun};
use nanoclaw::domain::usage::Usage;
use nanoclaw::ports::{
    Accounts, CancelToken, Clock, Conversations, MessagePage, MessageQuery, MessageRef, NewJob, NodeStore,
    StoreError,
};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{RedbStore, check};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The only user of most tests.
pub(crate) const ANN: UserId = UserId(1);
/// The other one.
pub(crate) const BOB: UserId = UserId(2);

/// A clock that moves only when the test advances it.
#[derive(Debug, Default)]
pub(crate) struct ManualClock {
    monotonic_ms: AtomicU64,
    /// The wall clock minus the monotonic clock.
    ahead_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows 1,000,000 ms.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { monotonic_ms: AtomicU64::new(1_000_000), ahead_ms: AtomicU64::new(0) })
    }

    /// Advances the clock.
    pub(crate) fn advance(&self, ms: u64) {
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock ahead.
    pub(crate) fn jump(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        stop.wait(timeout);
    }
}

/// A value as the store keeps it: with the CRC-32C of table, width of the key, key and value.
pub(crate) fn sealed(table: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    let width = (key.len() as u64).to_le_bytes();
    let sum = crc32c::crc32c(&[table.as_bytes(), &width, key, value].concat());
    [value, &sum.to_le_bytes()].concat()
}

/// The job with this number.
pub(crate) fn id(number: u128) -> JobId {
    JobId::from_bits(number)
}

/// A plain job.
pub(crate) fn job(number: u128, user: UserId) -> NewJob {
    let spec = JobSpec::new("demo".to_owned(), vec![Message::user(format!("question {number}"))], 15, 60);
    NewJob { id: id(number), user, created_at_ms: 1_000_000, spec, in_existing: false }
}

/// A job of a conversation.
pub(crate) fn turn(number: u128, user: UserId, conversation: &str) -> NewJob {
    let mut new = job(number, user);
    new.spec.conversation_id = Some(ConversationId::try_from(conversation.to_owned()).unwrap());
    new
}

/// A piece of a text step.
pub(crate) fn delta(index: u32, offset: u64, text: &str) -> Record {
    Event::Delta { index, kind: StepKind::Text, offset, first_seq: 0, text: text.to_owned() }.into()
}

/// A successful model call with this usage; without a model, the job's model was called.
pub(crate) fn cost(model: Option<&str>, usage: Usage) -> Record {
    let model = model.map(str::to_owned);
    EngineMark::model_finished(FinishReason::Stop, usage, model).into()
}

/// A successful outcome.
pub(crate) fn done(job: JobId, text: &str) -> JobOutcome {
    let event = Event::Done {
        message_id: job.message_id(),
        token_count: 2,
        suggested_title: None,
        usage: Usage::new(1, 2),
        finish_reason: FinishReason::Stop,
        stop_sequence: None,
    };
    let messages = vec![Message::assistant(text)];
    JobOutcome { event, output_text: text.to_owned(), messages, summary: None }
}

/// The run as an export of this store has it.
pub(crate) fn exported(store: &dyn NodeStore, n: u128) -> (EndedRun, Vec<LogRecord>) {
    let run = store.ended_run(ANN, id(n)).unwrap().unwrap();
    (run, store.log_records(id(n), RecordPlace::BEFORE_FIRST, usize::MAX).unwrap())
}

/// The run as an import of that file has it.
pub(crate) fn imported((run, records): (EndedRun, Vec<LogRecord>)) -> ImportedRun {
    let Ok(Record::Event(end)) = records.last().unwrap().parse() else { panic!("no end") };
    ImportedRun::new(run, records, end)
}

/// The outcome that the engine writes for a cancelled job.
pub(crate) fn cancelled() -> JobOutcome {
    let event =
        Event::Error { content: "cancelled".to_owned(), code: FailureCode::Cancelled, retry_after_ms: None };
    JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None }
}

/// A conversation id.
pub(crate) fn name(text: &str) -> ConversationId {
    ConversationId::try_from(text.to_owned()).unwrap()
}

/// A conversation without messages, created at this time.
pub(crate) fn chat(user: UserId, id: &str, at_ms: u64) -> Conversation {
    let settings = ConversationSettings {
        model: "demo".to_owned(),
        system_prompt: String::new(),
        temperature: None,
        max_tokens: None,
        thinking_enabled: false,
        project_id: None,
    };
    let (created_at_ms, updated_at_ms) = (at_ms, at_ms);
    Conversation {
        id: name(id),
        user,
        title: String::new(),
        settings,
        created_at_ms,
        updated_at_ms,
        message_count: 0,
        metadata: BTreeMap::new(),
    }
}

/// Checks that the stored bytes of both users, which commits have added up, are those that a new count finds
/// in this file. Returns them.
pub(crate) fn check_stored_bytes(image: Vec<u8>) -> Result<[u64; 2], String> {
    check_image(&image)?;
    let disk = Disk::with(image, Syncs::Hold, None);
    let bytes = |has_quotas| -> Result<[u64; 2], String> {
        let options = StoreOptions { has_quotas, settle_ms: 60_000, ..StoreOptions::default() };
        let disk = disk.clone();
        let clock = ManualClock::new();
        let store = RedbStore::open_with_backend(move || disk.clone(), &options, &Limits::default(), clock)
            .map_err(|error| error.to_string())?;
        let bytes = [ANN, BOB].map(|user| store.stored_bytes(user).unwrap());
        store.close();
        Ok(bytes)
    };
    let added_up = bytes(true)?;
    let without_quotas = bytes(false)?;
    let counted = bytes(true)?;
    if without_quotas != [0, 0] {
        return Err(format!("without quotas {without_quotas:?} bytes stay"));
    }
    if added_up == counted { Ok(counted) } else { Err(format!("{added_up:?} bytes, in truth {counted:?}")) }
}

/// Checks a file as `nanoclaw check` does, with the other counts of users.
fn check_image(image: &[u8]) -> Result<(), String> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.redb");
    std::fs::write(&path, image).unwrap();
    let checked = check(&path).map_err(|error| error.to_string())?.unwrap_or_default();
    if checked.damaged == 0 { Ok(()) } else { Err(checked.to_string()) }
}

/// Reads pages of messages without a bound on memory.
pub(crate) trait MessagePages {
    /// At most `limit` messages after this one.
    fn message_page(
        &self,
        user: UserId,
        id: &ConversationId,
        after: Option<MessageRef>,
        limit: usize,
    ) -> Result<MessagePage, StoreError>;
}

impl<S: Conversations + ?Sized> MessagePages for S {
    fn message_page(
        &self,
        user: UserId,
        id: &ConversationId,
        after: Option<MessageRef>,
        limit: usize,
    ) -> Result<MessagePage, StoreError> {
        self.messages(&MessageQuery { user, conversation: id, after, limit }, &mut |_| Ok(()))
    }
}
