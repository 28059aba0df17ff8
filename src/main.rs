//! The binary: a child of the sandbox if it is started as one, else the command that its arguments name.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First: a child of the sandbox must not run any code of the server.
    nanoclaw_sandbox::child_hook();
    nanoclaw::cli::run(std::env::args_os())
}
