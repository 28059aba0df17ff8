//! `/v1`, one file per act on jobs (DESIGN §3), one for webhooks. Owns the shapes of its objects; refuses anything about connections.

pub(crate) mod cancel;
pub(crate) mod events;
mod farewell;
mod field;
mod input;
mod job_view;
pub(crate) mod list;
pub(crate) mod output;
pub(crate) mod show;
pub(crate) mod spec;
pub(crate) mod submit;
mod wait;
mod webhook_url;
pub(crate) mod webhooks;
