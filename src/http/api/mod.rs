//! `/api` for the `NanoClaw` front end (DESIGN §5): one module a resource, answers in the
//! envelope of [`envelope`].

pub(crate) mod account;
pub(crate) mod auth;
pub(crate) mod conversations;
pub(crate) mod envelope;
pub(crate) mod invites;
pub(crate) mod messages;
pub(crate) mod models;
pub(crate) mod projects;
pub(crate) mod stats;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod users;
