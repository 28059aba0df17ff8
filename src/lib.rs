//! The map of the crate. Each module says what it owns and what it refuses; ARCHITECTURE.md shows how they meet.
//!
//! Direction of knowledge: `domain` ← `ports` ← { `store`, `engine`, `llm`, `tools`, `http`, `webhooks`, `workspace`, `web`, `audit`, `mcp`, `metrics` } ← `config` ← `app` ← `cli`.
//! Siblings never import each other; `net`, which imports nothing, is for `llm` and `web`. A style test in `tests/` holds this.

pub mod app;
pub mod audit;
pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
pub mod http;
pub mod llm;
pub mod mcp;
pub mod metrics;
mod net;
pub mod ports;
pub mod store;
pub mod tools;
pub mod web;
pub mod webhooks;
pub mod workspace;
