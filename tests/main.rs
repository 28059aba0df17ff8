//! All tests of the server in one binary, a module a subject: `cargo test --test all MODULE::`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails loudly, starts processes, waits for them and prints their logs"
)]

mod accounts;
mod add_a_tool;
mod agents;
mod answer_load;
mod anthropic_messages;
mod approvals;
mod ask;
mod attacks;
mod batch_checks;
mod batch_cli;
mod batch_expiry;
mod batch_files;
mod batches;
mod bit_rot;
mod cli;
mod client_commands;
mod cluster;
mod connection_limits;
mod console;
mod conversations;
mod crash_recovery;
mod custom_tools;
mod database_checks;
mod disk_errors;
mod doctor;
mod event_stream_load;
mod event_streams;
mod fair_shares;
mod file_changes;
mod file_tools;
mod files;
mod forwarded_requests;
mod guest_paths;
mod images;
mod install;
mod job_conditions;
mod job_directories;
mod job_rights;
mod jobs;
mod llm_wire;
mod log_chains;
mod logs;
mod long_results;
mod maintenance;
mod mcp;
mod mcp_server;
mod memory;
mod messages;
mod metrics;
mod model_failures;
mod neighbours;
mod openai_chat;
mod openai_conversations;
mod openai_functions;
mod openai_responses;
mod openai_walls;
mod original_nanoclaw;
mod otlp;
mod own_programs;
mod plain_answers;
mod power_loss;
mod project_files;
mod project_limits;
mod projects;
mod rate_limits;
mod readme;
mod recorded_calls;
mod release;
mod responses_custom_tools;
mod responses_loaded_tools;
mod responses_options;
mod responses_web_socket;
mod revoked_access;
mod runs;
mod sandbox;
mod schedules;
mod service;
mod shared_project;
mod simulation;
mod skills;
mod snapshots;
mod status;
mod store_contract;
mod store_contract_postgres;
mod store_migration;
mod store_speed;
mod store_targets;
mod stored_completions;
mod streamed_calls;
mod style;
mod support;
mod tenant_isolation;
mod tool_names;
mod tool_offers;
mod tools;
mod torn_writes;
mod users_cli;
mod volatile_jobs;
mod web_tools;
mod webhooks;
