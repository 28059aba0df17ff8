//! The store against its port: what every method promises, on a real file, crashes by copying that file.
#![warn(clippy::disallowed_methods, reason = "time comes in through a clock of the test")]

mod approvals;
mod background_jobs;
mod backup;
mod batch_limits;
mod batches;
mod cancel;
mod cancel_race;
mod claim_order;
mod conversation_items;
mod conversation_model;
mod conversation_removal;
mod conversations;
mod defer;
mod event_log;
mod fair_shares;
mod faults;
mod fixture;
mod images;
mod job_lists;
mod malformed_rows;
mod messages;
mod projects;
mod recovery;
mod regenerate;
mod retention;
mod retries;
mod schedules;
mod stored_bytes;
mod stored_files;
mod summaries;
mod tool_results;
mod usage;
mod users;
mod waiting_claims;
mod webhooks;
