//! `/v1` (DESIGN §3): one module a resource.

pub(crate) mod anthropic;
pub(crate) mod backup;
pub(crate) mod batches;
pub(crate) mod end_look;
pub(crate) mod files;
pub(crate) mod idempotency;
pub(crate) mod jobs;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod nodes;
pub(crate) mod openai;
pub(crate) mod page;
pub(crate) mod schedules;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod usage;
pub(crate) mod usage_groups;
pub(crate) mod wait;
pub(crate) mod webhook_url;
pub(crate) mod webhooks;
