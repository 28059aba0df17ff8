//! `/v1`, one file per act on jobs, a folder for batches, a file for webhooks (DESIGN §3). Owns the shapes of its objects;
//! refuses anything about connections.

pub(crate) mod attachments;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod cancel;
pub(crate) mod decide;
pub(crate) mod delete;
pub(crate) mod events;
mod farewell;
pub(crate) mod field;
pub(crate) mod input;
mod job_view;
pub(crate) mod list;
pub(crate) mod once;
pub(crate) mod output;
pub(crate) mod page;
pub(crate) mod retry;
pub(crate) mod schedules;
pub(crate) mod show;
pub(crate) mod spec;
pub(crate) mod stored;
pub(crate) mod streamed;
pub(crate) mod submit;
pub(crate) mod usage;
mod wait;
mod webhook_url;
pub(crate) mod webhooks;
