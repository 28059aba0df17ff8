//! `/api`, as the `NanoClaw` front end speaks it (DESIGN §5), one file per resource. Owns the shapes of its objects and their
//! envelope; refuses anything about connections.

pub(crate) mod account_view;
pub(crate) mod auth;
pub(crate) mod conversations;
pub(crate) mod dates;
pub(crate) mod envelope;
pub(crate) mod invites;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod object;
pub(crate) mod page;
pub(crate) mod projects;
pub(crate) mod stats;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod users;
