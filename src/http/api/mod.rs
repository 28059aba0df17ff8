//! `/api`, as the `NanoClaw` front end speaks it (DESIGN §5), one file per resource. Owns the shapes of its objects and their
//! envelope; refuses anything about connections.

mod account_view;
pub(crate) mod auth;
mod dates;
mod envelope;
pub(crate) mod invites;
pub(crate) mod models;
mod object;
mod page;
pub(crate) mod tokens;
pub(crate) mod users;
