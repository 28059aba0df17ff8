//! `/v1`, one file per act on jobs, a folder for batches, a file for webhooks (DESIGN §3). Owns the shapes of its objects;
//! refuses anything about connections.

mod attachments;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod events;
mod farewell;
pub(crate) mod field;
mod input;
mod job_view;
pub(crate) mod list;
mod once;
pub(crate) mod output;
mod page;
pub(crate) mod retry;
pub(crate) mod schedules;
pub(crate) mod show;
pub(crate) mod spec;
pub(crate) mod submit;
pub(crate) mod usage;
mod wait;
mod webhook_url;
pub(crate) mod webhooks;
