//! The door from outside: bytes in, bytes out, over real hyper.

mod approvals;
mod backup;
mod batch_followers;
mod cost;
mod drain;
mod events;
mod half_close;
mod hostile;
mod jobs;
mod quota;
mod shared_pages;
mod stream_connections;
mod submit;
mod tokens;
mod trials;
mod unread_bodies;
mod usage;
mod users;
mod web_socket;
mod webhooks;
