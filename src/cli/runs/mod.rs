//! `nanoclaw export` and `nanoclaw import`: ended jobs with their logs, from one server to another.

pub(super) mod export;
pub(super) mod import;
