//! The seams beside the store, as small as they can be, and the room that they make.

use super::outbox::MemoryOutbox;
use super::schedules::NoSchedules;
use super::store::MemoryStore;
use crate::domain::account::{AuthMode, Registration};
use crate::domain::address::AddressPolicy;
use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, ConversationId, IdGenerator, JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::limits::Limits;
use crate::domain::tool::{Strictness, ToolCall, ToolDefinition, ToolSpec};
use crate::domain::usage::{GroupUsage, Usage, UsageByModel};
use crate::domain::workspace::UserDirectories;
use crate::http::dependencies::{AppDependencies, AuthSettings};
use crate::http::shared_threads::SharedThreads;
use crate::ports::{
    Accounts, Audit, AuditEntry, AuditPage, Backup, BatchError, BatchFiles, BatchPage, Batches, CancelToken,
    ChangeWatch, ChunkSink, Clock, ClusterView, Completion, DayUsage, Entropy, Exposition, HourUsage,
    Idempotent, Journal, KernelTables, McpServerInfo, Model, ModelError, ModelInfo, ModelRequest, NewBatch,
    NewLine, NoopMeter, PartFault, ReadinessProbe, ResultPage, SandboxLevelInfo, ServerFigures, ServerStatus,
    Store, StoreError, StoreStats, Ticket, TitledConversation, ToolContext, ToolScope, Toolbox, UsageGroups,
    UserJobCounts,
};
use crate::store::{ContentDirectory, RedbStore};
use crate::workspace::HostFiles;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The other seams, as small as they can be.
struct Rest;

impl Clock for Rest {
    fn now_ms(&self) -> u64 {
        1_700_000_000_123
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

impl Batches for Rest {
    fn fill(&self, _: (UserId, BatchId), _: u32, _: Vec<NewLine>) -> Ticket<()> {
        unreachable!("batches are tested against the real store")
    }
    fn abandon(&self, _: BatchId) -> Ticket<()> {
        unreachable!("batches are tested against the real store")
    }
    fn accept(&self, _: NewBatch, _: Option<IdempotencyKey>) -> Ticket<Idempotent<Batch>, BatchError> {
        unreachable!("batches are tested against the real store")
    }
    fn cancel_batch(&self, _: UserId, _: BatchId) -> Ticket<Option<Batch>> {
        unreachable!("batches are tested against the real store")
    }
    fn delete_batch(&self, _: UserId, _: BatchId) -> Ticket<bool, BatchError> {
        unreachable!("batches are tested against the real store")
    }
    fn attach_files(&self, _: UserId, _: BatchId, _: BatchFiles) -> Ticket<Option<Batch>> {
        unreachable!("batches are tested against the real store")
    }
    fn batches_without_files(&self) -> Result<Vec<(UserId, BatchId)>, StoreError> {
        Ok(Vec::new())
    }
    fn resume_waiting(&self) -> Ticket<bool> {
        unreachable!("batches are tested against the real store")
    }
    fn expire_due(&self) -> Ticket<bool> {
        unreachable!("batches are tested against the real store")
    }
    fn batch(&self, _: UserId, _: BatchId) -> Result<Option<Batch>, StoreError> {
        Ok(None)
    }
    fn batches(&self, _: UserId, _: Option<BatchId>, _: usize) -> Result<BatchPage, StoreError> {
        unreachable!("batches are tested against the real store")
    }
    fn results(&self, _: BatchId, _: u32, _: u32) -> Result<ResultPage, StoreError> {
        unreachable!("batches are tested against the real store")
    }
    fn ended(&self, _: BatchId, _: u32, _: u32) -> Result<ResultPage, StoreError> {
        unreachable!("batches are tested against the real store")
    }
    fn watch_batch(&self, _: BatchId) -> ChangeWatch {
        unreachable!("batches are tested against the real store")
    }
}

/// The 14th of November 2023: today, by this clock.
const TODAY: u32 = 19_675;

impl Accounts for Rest {
    fn book_usage(&self, _: UserId, _: String, _: Usage) -> Ticket<()> {
        Ticket::resolved(Ok(()))
    }
    fn usage(&self, user: UserId, from_day: u32, to_day: u32) -> Result<Vec<DayUsage>, StoreError> {
        let line = |day, cost_micros| DayUsage {
            day,
            model: "demo".into(),
            usage: Usage { cost_micros, ..Usage::new(3, 4) },
            jobs: 2,
        };
        let lines = [line(TODAY - 400, 0), line(TODAY - 40, 0), line(TODAY - 1, 0), line(TODAY, 9)];
        let known = lines.into_iter().filter(|line| (from_day..=to_day).contains(&line.day));
        Ok(known.filter(|_| user == UserId::SINGLE).collect())
    }
    fn usage_by_hour(&self, user: Option<UserId>, from: u32, to: u32) -> Result<Vec<HourUsage>, StoreError> {
        let line = |hour| HourUsage { hour, model: "demo".into(), usage: Usage::new(3, 4) };
        let lines = [TODAY * 24 - 240, TODAY * 24 - 1, TODAY * 24 + 12].into_iter().map(line);
        let known = lines.filter(|line| (from..=to).contains(&line.hour));
        Ok(known.filter(|_| user.is_none_or(|user| user == UserId::SINGLE)).collect())
    }
    fn usage_by_user(
        &self,
        user: Option<UserId>,
        days: (u32, u32),
        _: usize,
    ) -> Result<UsageGroups<UserId>, StoreError> {
        let lines = self.usage(user.unwrap_or(UserId::SINGLE), days.0, days.1)?;
        let usage = |group| GroupUsage { group, usage: Usage::new(3, 4), jobs: 2 };
        Ok((lines.first().map(|_| usage(UserId::SINGLE)).into_iter().collect(), false))
    }
    fn usage_by_conversation(
        &self,
        _: UserId,
        _: (u32, u32),
        _: usize,
    ) -> Result<UsageGroups<TitledConversation>, StoreError> {
        let id = ConversationId::try_from("chat".to_owned()).map_err(StoreError::Corrupt)?;
        let group = TitledConversation { id, title: "Sums".into() };
        Ok((vec![GroupUsage { group, usage: Usage::new(1, 2), jobs: 1 }], true))
    }
    fn conversation_usage(&self, _: UserId, _: &ConversationId) -> Result<UsageByModel, StoreError> {
        unreachable!("HTTP asks for no conversation yet")
    }
    fn stored_bytes(&self, _: UserId) -> Result<u64, StoreError> {
        Ok(7_000)
    }
}

impl Backup for Rest {
    fn copy(&self) -> Result<std::fs::File, StoreError> {
        let mut file = tempfile::tempfile()?;
        std::io::Write::write_all(&mut file, &vec![7; 600_000])?;
        Ok(file)
    }
}

impl KernelTables for Rest {
    fn end_largest_command(&self, _short: crate::ports::KernelShortage) {}
}

impl Exposition for Rest {
    fn render(&self) -> String {
        "# nothing was counted\n".to_owned()
    }
}

impl ServerStatus for Rest {
    fn figures(&self) -> ServerFigures {
        ServerFigures::default()
    }
    fn uptime_s(&self) -> u64 {
        0
    }
    fn store(&self) -> Result<StoreStats, StoreError> {
        Err(StoreError::Closed)
    }
    fn cluster(&self) -> Result<Option<ClusterView>, StoreError> {
        Ok(None)
    }
    fn jobs_of(&self, _: UserId) -> Result<UserJobCounts, StoreError> {
        Err(StoreError::Closed)
    }
    fn mcp_servers(&self) -> Vec<McpServerInfo> {
        Vec::new()
    }
    fn sandbox_levels(&self) -> Vec<SandboxLevelInfo> {
        Vec::new()
    }
}

impl Entropy for Rest {
    fn random(&self) -> u128 {
        77
    }
}

impl Model for Rest {
    fn ask(&self, _: &ModelRequest, _: &CancelToken, _: ChunkSink<'_>) -> Result<Completion, ModelError> {
        unreachable!("HTTP asks no model")
    }
    fn models(&self) -> Vec<ModelInfo> {
        vec![
            ModelInfo { id: "demo".into(), name: "Demo".into(), ..ModelInfo::default() },
            ModelInfo { id: "other".into(), name: "Other".into(), ..ModelInfo::default() },
        ]
    }
}

impl Audit for Rest {
    fn record(&self, _: &AuditEntry) {}
    fn of_job(&self, _: UserId, _: JobId, _: u64, _: usize) -> Result<AuditPage, StoreError> {
        Ok(AuditPage::default())
    }
}

impl Toolbox for Rest {
    fn offered(&self, _: &ToolScope<'_>) -> Vec<ToolDefinition> {
        let tool = |name: &'static str| ToolSpec {
            name: name.into(),
            description: "".into(),
            parameters: serde_json::Value::Null,
        };
        vec![tool("calculator").into(), tool("execute_python").into()]
    }
    fn has_tool(&self, name: &str) -> bool {
        ["calculator", "execute_python", "py"].contains(&name)
    }
    fn run(&self, _: &[ToolCall], _: &ToolContext, _: &dyn Journal) {
        unreachable!("HTTP runs no tool")
    }
}

/// A probe that says what it was told to.
pub(crate) struct Told(pub(crate) Result<(), String>);

impl ReadinessProbe for Told {
    fn name(&self) -> &'static str {
        "told"
    }
    fn check(&self) -> Result<(), PartFault> {
        self.0.clone().map_err(PartFault::from)
    }
}

/// A probe of a part that the server is of use without.
pub(crate) struct Short;

impl ReadinessProbe for Short {
    fn name(&self) -> &'static str {
        "short"
    }
    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }
    fn degradation(&self) -> Option<PartFault> {
        Some(PartFault::from("no room".to_owned()))
    }
}

/// Stands still until it is moved.
#[derive(Clone, Default)]
pub(crate) struct HandClock(Arc<AtomicU64>);

impl HandClock {
    pub(crate) fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

/// A probe that counts how often it is asked.
#[derive(Clone, Default)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    pub(crate) fn asked(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl ReadinessProbe for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }
    fn check(&self) -> Result<(), PartFault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A real store in memory, for what the fake one does not have.
fn side_store() -> Arc<RedbStore> {
    RedbStore::in_memory(Arc::new(Rest))
}

/// A room around the store.
pub(crate) fn app(store: &Arc<MemoryStore>) -> AppDependencies {
    let side = side_store();
    AppDependencies {
        store: Arc::clone(store) as Arc<dyn Store>,
        outbox: Arc::new(MemoryOutbox::default()),
        addresses: AddressPolicy::default(),
        batches: Arc::new(Rest),
        schedules: Arc::new(NoSchedules),
        users: Arc::<RedbStore>::clone(&side),
        conversations: Arc::<RedbStore>::clone(&side),
        conversation_items: Arc::<RedbStore>::clone(&side),
        completions: Arc::<RedbStore>::clone(&side),
        log_chains: Arc::<RedbStore>::clone(&side),
        runs: Arc::<RedbStore>::clone(&side),
        projects: Arc::<RedbStore>::clone(&side),
        contents: Arc::new(ContentDirectory::open(
            "/nonexistent/files".as_ref(),
            Arc::<RedbStore>::clone(&side),
        )),
        files: side,
        workspaces: Arc::new(HostFiles::new(
            "/nonexistent".into(),
            UserDirectories::new(&[7; 32]),
            &Limits::default(),
            Arc::new(Rest),
        )),
        memories: None,
        audit: Arc::new(Rest),
        auth: AuthSettings {
            mode: AuthMode::Single,
            registration: Registration::Open,
            session_key: vec![7; 32],
            control_key_digest: None,
            metrics_are_public: false,
        },
        windows: None,
        accounts: Arc::new(Rest),
        backup: Arc::new(Rest),
        clock: Arc::new(Rest),
        entropy: Arc::new(Rest),
        mint: IdGenerator::default(),
        toolbox: Arc::new(Rest),
        model: Arc::new(Rest),
        threads: SharedThreads::for_reads(&Limits::default()),
        meter: Arc::new(NoopMeter),
        exposition: Arc::new(Rest),
        status: Arc::new(Rest),
        probes: Vec::new(),
        kernel_tables: Arc::new(Rest),
        limits: Limits::default(),
        default_model: "demo".into(),
        strictness_levels: Strictness::ALL.to_vec(),
        max_iterations: 15,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        has_console: true,
        console_url: None,
        has_mcp_server: true,
    }
}
