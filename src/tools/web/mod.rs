//! Shared by the web tools: requests to configured services, fetching a page, and reading it.

pub(super) mod page;
pub(super) mod service;
pub(super) mod visit;

pub use service::BadOption;
