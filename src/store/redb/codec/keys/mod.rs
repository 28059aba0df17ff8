//! The keys of all tables: fixed widths, big endian, so that bytes sort as the values do.

pub(crate) mod accounts;
pub(crate) mod batches;
pub(crate) mod conversations;
pub(crate) mod deliveries;
pub(crate) mod jobs;
pub(crate) mod projects;
mod reader;
pub(crate) mod schedules;
pub(crate) mod stored_files;
#[cfg(test)]
mod tests;
