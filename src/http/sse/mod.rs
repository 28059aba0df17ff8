//! Event streams: a page is read from the log after the reader's cursor, rendered, and sent
//! when the socket asks for it.

pub(crate) mod cursor;
pub(crate) mod event;
pub(crate) mod frame;
mod long_frame;
pub(crate) mod shared_pages;
pub(crate) mod stream;
