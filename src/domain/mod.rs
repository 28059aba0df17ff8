//! Plain data and its rules. Owns what a job, an event, a message and a limit are; refuses all I/O,
//! all clocks and all randomness: whatever is not in the arguments does not exist here.

pub mod account;
pub mod address;
pub mod approval;
pub mod attachment;
pub mod batch;
pub mod batch_object;
pub mod canonical;
pub mod conversation;
pub mod event;
pub mod handle;
pub mod id;
pub mod idempotency;
pub mod job;
pub mod job_object;
pub mod limits;
pub mod log_rate_limit;
pub mod message;
pub mod nearest;
pub mod project;
pub mod schedule;
pub mod secret;
pub mod steps;
pub mod timing;
pub mod tokens;
pub mod tool;
pub mod usage;
pub mod webhook;
