//! `/api`, as the NanoClaw front end speaks it (DESIGN §5), one file per resource. Owns the shapes of its objects and their
//! envelope; refuses anything about connections.

pub(crate) mod account_view;
pub(crate) mod auth;
pub(crate) mod dates;
pub(crate) mod envelope;
pub(crate) mod invites;
pub(crate) mod models;
pub(crate) mod object;
pub(crate) mod page;
pub(crate) mod tokens;
pub(crate) mod users;
