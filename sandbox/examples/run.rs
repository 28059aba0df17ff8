//! Runs one program in the sandbox and prints its record as JSON:
//! `cargo run --example run -- LANGUAGE LEVEL FILE [MODULE …]`, with `-` as the file for standard input. The
//! modules, such as `numpy`, are allowed in addition to those of the level. Without arguments it prints what
//! the sandbox supports on this machine.
//!
//! `$SANDBOX_PYTHON` selects the interpreter. `$SANDBOX_UNCHECKED` switches the language check off, so that
//! only the kernel policy applies.

use std::io::Read;

use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First: the sandbox starts this binary again as its broker.
    nanoclaw_sandbox::child_hook();

    let python = std::env::var_os("SANDBOX_PYTHON").map(Into::into);
    let sandbox = Sandbox::new(SandboxOptions { python, ..SandboxOptions::default() })?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [language, level, file, modules @ ..] = arguments.as_slice() else {
        serde_json::to_writer_pretty(std::io::stdout(), &sandbox.report())?;
        return Ok(());
    };

    let language: Language = serde_json::from_value(language.as_str().into())?;
    let level: Level = serde_json::from_value(level.as_str().into())?;
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    if !modules.is_empty() {
        sandbox.allow_modules(level, &modules)?;
    }
    let mut code = String::new();
    if file == "-" {
        std::io::stdin().read_to_string(&mut code)?;
    } else {
        code = std::fs::read_to_string(file)?;
    }

    // The closure returns true to cancel.
    let mut program = Program::new(language, level, code);
    program.language_check = std::env::var_os("SANDBOX_UNCHECKED").is_none();
    let record = sandbox.run(&program, &|| false);
    serde_json::to_writer_pretty(std::io::stdout(), &record)?;
    Ok(())
}
