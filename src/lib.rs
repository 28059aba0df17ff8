//! `NanoClaw`, a durable AI-agent server. ARCHITECTURE.md describes the modules and how they work together.
//!
//! Imports go in one direction: `domain` ← `ports` ← { `store`, `engine`, `llm`, `tools`, `http`, `webhooks`,
//! `workspace`, `web`, `audit`, `mcp`, `metrics`, `telemetry` } ← `config` ← `app` ← `cli`. Modules in braces
//! never import each other. `net` imports nothing and serves `llm`, `web`, `webhooks` and `telemetry`. A
//! style test holds this.

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
pub mod telemetry;
pub mod tools;
pub mod web;
pub mod webhooks;
pub mod workspace;
