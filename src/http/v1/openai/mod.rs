//! Routes of `OpenAI`'s API, so that its clients work unchanged. Each request is a job underneath: the same
//! store, queue, limits and accounts as `/v1/jobs`.
//!
//! A field that is not supported is refused by name. Fields that change no answer are accepted and unused.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod chat;
pub(crate) mod failure;
pub(crate) mod fields;
pub(crate) mod forward;
pub(crate) mod headers;
mod log_reader;
pub(crate) mod models;
mod reasoning;
pub(crate) mod responses;
pub(crate) mod usage;
