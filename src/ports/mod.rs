//! The interfaces between modules: traits for the store, models, tools, clock and others, and the values
//! that cross them. Implementations live in the modules that `app` wires together.

mod accounts;
mod audit;
mod backup;
mod batch;
mod budget;
mod clock;
mod cluster;
mod contents;
mod conversation_items;
mod conversations;
mod files;
mod forward;
mod job_services;
mod kernel_tables;
mod log_chains;
mod memories;
mod meter;
mod model;
mod model_health;
mod node_store;
mod outbox;
mod processes;
mod projects;
mod provider_cluster;
mod quota;
mod quota_refusal;
mod rate_windows;
mod readiness;
mod results;
mod runs;
mod schedule;
mod seen_files;
mod semaphore;
mod shared_files;
mod span_exports;
mod status;
mod store;
mod store_error;
mod stored_completions;
mod stored_files;
mod ticket;
mod tool;
mod users;
mod web;
mod workspaces;

pub use accounts::{
    ACCOUNT_DAY_MS, ACCOUNT_HOUR_MS, Accounts, DayUsage, HourUsage, TitledConversation, UsageGroups,
};
pub use audit::{Audit, AuditEntry, AuditPage, AuditRows};
pub use backup::Backup;
pub use batch::{
    BatchError, BatchFiles, BatchPage, Batches, LineOutcome, LineResult, NewBatch, NewLine, ResultPage,
};
pub use budget::JobBudget;
pub use clock::{CancelReason, CancelToken, Clock, Entropy};
pub use cluster::{
    CatalogueDigests, CatalogueSource, Cluster, ClusterNode, ClusterView, NodeState, node_warnings,
};
pub use contents::{Contents, IncomingContent, PinnedContent};
pub use conversation_items::{
    ConversationEntry, ConversationItems, EntryJob, EntryPage, EntryQuery, EntryRef, ItemsEdit, NewItems,
};
pub use conversations::{
    ChatMessage, ConversationCursor, ConversationError, ConversationPage, ConversationQuery, Conversations,
    MessagePage, MessageQuery, MessageRef, ReadMemory, RegenerateRequest,
};
pub use files::{
    DirectoryLimit, ReadOnlyFiles, RunDirectory, WorkspaceFiles, WorkspaceFolder, WorkspaceOwner,
};
pub use forward::{ForwardEndpoint, ForwardRequest, ForwardSink};
pub use job_services::{
    BackgroundJobs, BackgroundTask, JobServiceError, JobServices, NewSchedule, SpawnError, ToolCaller,
};
pub use kernel_tables::{KernelShortage, KernelTables};
pub use log_chains::LogChains;
pub use memories::{Memories, MemoryChange, MemoryOwner};
pub use meter::{CircuitState, Exposition, Measurement, Meter, NoopMeter, StatsSource, StoreStats};
pub use model::{
    Chunk, ChunkSink, Completion, ForwardError, ForwardOutcome, Model, ModelCaller, ModelError, ModelInfo,
    ModelRequest, PromptCut,
};
pub use model_health::{ModelHealth, ModelState};
pub use node_store::{ClusterPorts, NodeStore, StoreLoad};
pub use outbox::{DeliveryPage, DeliveryQuery, Outbox, Payload, Payloads};
pub use processes::{GuestPipes, GuestProcess, ProcessSpec, Processes};
pub use projects::{ProjectCursor, ProjectError, ProjectPage, Projects};
pub use provider_cluster::{NodeShare, ProviderCluster};
pub use quota::{NewWork, QuotaShare, QuotaSources, WorkQuota};
pub use quota_refusal::QuotaRefusal;
pub use rate_windows::{CountedEvents, RateWindow, RateWindows};
pub use readiness::{PartFault, ReadinessProbe};
pub use results::Results;
pub use runs::{ImportError, ImportOutcome, Runs};
pub use schedule::{
    FiredSchedules, MinInterval, ScheduleError, SchedulePage, ScheduleQuery, ScheduleStatus, Schedules,
};
pub use seen_files::{SeenFile, SeenFiles};
pub use semaphore::{Semaphore, SemaphorePermit};
pub use shared_files::{
    BEACON_FILE, BEACON_SETTING, DiskSpace, HeldLock, LockMode, SharedDirState, SharedFiles, SharedLock,
    SharedLockKind, lock_slot,
};
pub use span_exports::{SpanExport, SpanExports};
pub use status::{
    McpServerInfo, McpServerState, ModelCalls, Percentiles, SandboxLevelInfo, SandboxLevelState,
    ServerFigures, ServerStatus, UserJobCounts,
};
pub use store::{
    ChangeWatch, DecidedJob, EventPage, Fence, Idempotent, JobChangeError, JobPage, JobQuery, Lease,
    LeaseError, NewJob, Store, SubmitError, Urgency, ended_watch,
};
pub use store_error::StoreError;
pub use stored_completions::{CompletionPage, CompletionQuery, StoredCompletions};
pub use stored_files::{StoredFileError, StoredFilePage, StoredFileQuery, StoredFiles};
pub use ticket::Ticket;
pub use tool::{
    ApprovedCalls, FullResult, Journal, McpOffer, ModelParameters, ProgressReporter, Tool, ToolContext,
    ToolError, ToolInfo, ToolNamespace, ToolOffer, ToolOutcome, ToolScope, ToolSource, Toolbox,
    Unavailability, UnexecutedReason,
};
pub use users::{
    AccountChange, AccountError, AccountPage, InviteKind, InvitePage, NewAccount, NewInvite, NewToken,
    PendingInvite, RegistrationGate, RequiredInvite, SecretDigest, Users, ValidSetupInvite,
};
pub use web::{UrlTrust, Web, WebError, WebMethod, WebRequest, WebResponse};
pub use workspaces::{
    DirectoryListing, FileChange, FileEntry, FileError, FileKind, GlobQuery, SearchHit, SearchQuery,
    SearchResults, StorageAllowance, StorageScope, StorageUsage, TreeStats, Upload, Workspaces, WrittenFile,
};
