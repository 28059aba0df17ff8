//! The store on `PostgreSQL` beyond the contract: nodes that work on the same rows at once, and damage that
//! only SQL can do. Skipped, with a message, where `PostgreSQL` is not installed.

mod accounts;
mod audit;
mod batches;
mod conversations;
mod fixture;
mod retention_and_files;
mod settings;
mod tls;
mod two_nodes;
mod windows;
