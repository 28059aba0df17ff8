//! The binary: a sandbox child when it is started as one, else the command that its arguments name.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: a child of the sandbox must not run anything of the server's.
    nanoclaw_sandbox::child_hook();
    nanoclaw::cli::run(std::env::args_os())
}
