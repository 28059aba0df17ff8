//! Runs a file in the sandbox and prints the record: `sandbox-run python|javascript|bash LEVEL FILE [unchecked]`.

use nanoclaw_sandbox::{Language, Level, Options, Program, Sandbox};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    nanoclaw_sandbox::child_hook();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sandbox = Sandbox::new(Options::default())?;
    let [language, level, file, rest @ ..] = arguments.as_slice() else {
        serde_json::to_writer_pretty(std::io::stdout(), &sandbox.report())?;
        return Ok(());
    };
    let language = serde_json::from_value::<Language>(language.as_str().into())?;
    let level = serde_json::from_value::<Level>(level.as_str().into())?;
    let mut program = Program::new(language, level, std::fs::read_to_string(file)?);
    program.language_check = rest.is_empty();
    serde_json::to_writer_pretty(std::io::stdout(), &sandbox.run(&program, &|| false))?;
    Ok(())
}
