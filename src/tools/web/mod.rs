//! What the tools for the web share: asking a configured service, fetching a page, and reading it.

pub(super) mod page;
pub(super) mod service;
pub(super) mod visit;

pub use service::BadOption;
