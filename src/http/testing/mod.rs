//! A store in memory, a room around it and a client on a pipe, for the tests of this module.

mod account;
mod batches;
mod client;
mod outbox;
mod schedules;
mod seams;
mod store;

pub(crate) use account::account;
pub(crate) use batches::MemoryBatch;
pub(crate) use client::{Answer, Server, parse, read_all, request};
pub(crate) use outbox::MemoryOutbox;
pub(crate) use seams::{Counted, HandClock, Short, Told, app};
pub(crate) use store::{MemoryStore, step_text};
