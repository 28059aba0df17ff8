//! The seams between the rooms: what the engine and HTTP need from the store, the models, the tools and the clock.
//! Owns traits and the values that cross them, each with the little that it takes to be one (a flag that can be waited
//! on, a ticket that resolves); refuses whatever stands behind a trait.

mod accounts;
mod audit;
mod backup;
mod batch;
mod budget;
mod clock;
mod conversations;
mod errands;
mod files;
mod meter;
mod model;
mod outbox;
mod probe;
mod processes;
mod projects;
mod quota;
mod results;
mod schedule;
mod stop;
mod store;
mod ticket;
mod tool;
mod users;
mod web;
mod workspaces;

pub use accounts::{ACCOUNT_DAY_MS, ACCOUNT_HOUR_MS, Accounts, DayUsage, HourUsage};
pub use audit::{Audit, AuditEntry, AuditPage};
pub use backup::Backup;
pub use batch::{BatchPage, Batches, LineOutcome, LineResult, NewBatch, NewLine, ResultPage};
pub use budget::TokenBudget;
pub use clock::{Clock, Entropy};
pub use conversations::{
    Again, ChatMessage, ConversationPage, ConversationPlace, ConversationQuery, Conversations, MessagePage,
    MessageRef,
};
pub use errands::{Asker, Background, Errand, ErrandError, Errands, Plan};
pub use files::{ProjectFiles, ProjectFolder};
pub use meter::{Census, CircuitState, Exposition, Meter, Sample, Silent, TakesCensus};
pub use model::{Chunk, Completion, Model, ModelError, ModelInfo, ModelRequest, Sink};
pub use outbox::{DeliveryPage, DeliveryQuery, Outbox, Payload, Payloads};
pub use probe::Probe;
pub use processes::{GuestPipes, GuestProcess, ProcessOrder, Processes};
pub use projects::{ProjectPage, ProjectPlace, Projects};
pub use quota::{QuotaShare, QuotaSources};
pub use results::Results;
pub use schedule::{Fired, SchedulePage, ScheduleQuery, Schedules, Standing};
pub use stop::{Leash, Stop, StopFlag};
pub use store::{EventPage, Fence, JobPage, JobQuery, Lease, NewJob, News, Once, Store, StoreError, Urgency};
pub use ticket::Ticket;
pub use tool::{
    Approved, Journal, ModelTerms, Report, Settled, Tool, ToolContext, ToolError, ToolInfo, ToolOutcome,
    ToolSource, Toolbox, WholeResult,
};
pub use users::{AccountChange, AccountPage, Admission, Digest, NewAccount, NewInvite, NewToken, Users};
pub use web::{Trust, Web, WebAnswer, WebError, WebMethod, WebRequest};
pub use workspaces::{
    Allowance, Change, FileEntry, FileError, FileKind, FindQuery, Listing, SearchFound, SearchHit,
    SearchQuery, TreeStats, Upload, Workplaces, Workspaces, Written,
};
