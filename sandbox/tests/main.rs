//! The tests of the sandbox, one module per subject.
//!
//! One process runs them all, so tests that count this process's children and descriptors, or measure time,
//! take `support::exclusive()`; the others take `support::shared()`. A test that needs a process of its own
//! starts this binary again with its own name.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails loudly and prints what it measured or skipped"
)]

mod ablation;
mod bad_input;
mod benign;
mod between_runs;
mod closed;
mod endings;
mod every_call;
mod figures;
mod full_disk;
mod hidden_bytes;
mod host_calls;
mod hostile;
mod interpreters;
mod kept_apart;
mod kernel_memory;
mod language;
mod layers;
mod leaks;
mod lifecycle;
mod limits;
mod modules;
mod orphan;
mod other_ways;
mod own_attacks;
mod own_file_attacks;
mod own_files;
mod passing_faults;
mod policy;
mod private_files;
mod seen_by_name;
mod session_access;
mod sessions;
mod shell;
mod shell_input;
mod shell_limits;
mod shell_tree;
mod stuck;
mod support;
