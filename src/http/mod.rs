//! The HTTP door. Owns connections, requests, their limits and their answers; refuses to know who runs a job or how:
//! it meets workers in the store alone.
//!
//! The way of a request: `server` accepts → `connection` speaks HTTP → `guard` (Host, Origin) → `router` (`routes` has the table, `auth` knows who asks) →
//! one file of `v1` or `api` → `reply` or `error`. Event streams are pulled: `stream` reads a page, `frame` renders it (`long_frame` what is too
//! long to be held), the socket asks for the next one.

mod accept;
mod access;
mod api;
mod armour;
mod arriving;
mod auth;
mod blocking;
mod body;
mod connection;
mod cors;
mod cursor;
mod door;
mod error;
mod file_body;
mod frame;
mod guard;
mod health;
mod json;
mod listener;
mod long_frame;
mod measured;
mod metrics;
mod openapi;
mod path;
mod peer;
mod project;
mod query;
mod quota;
mod quoted;
mod refusal;
mod reply;
mod request_id;
mod room;
mod router;
mod routes;
mod server;
mod shutdown;
mod stall;
mod stream;
mod v1;

pub(crate) use api::tokens::{TokenView, Wish as TokenWish};
pub(crate) use api::users::{Newcomer, UserView, change_of};
pub(crate) use auth::{minted, password};
pub use listener::{Bound, Listener};
pub use room::{AuthTerms, Room};
pub use server::serve;
pub use shutdown::{Shutdown, Stage, Stages};
pub use v1::tools::ToolView;
pub use v1::trial::Trial;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
