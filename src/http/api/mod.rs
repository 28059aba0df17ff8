//! `/api`, as the NanoClaw front end speaks it (DESIGN §5), one file per resource. Owns the shapes of its objects and their
//! envelope; refuses anything about connections.

pub(crate) mod auth;
pub(crate) mod conversations;
mod dates;
mod envelope;
pub(crate) mod messages;
pub(crate) mod models;
mod object;
mod page;
pub(crate) mod stats;
pub(crate) mod tools;
