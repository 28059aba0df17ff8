//! `nanoclaw exec`: runs a program in the sandbox, without a server.

use super::error::CliError;
use super::terminal::{Terminal, open_input};
use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions};
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code of a program that ran out of time, as in timeout(1).
const TIMEOUT_EXIT: u8 = 124;

/// Added to a signal's number, as shells do.
const SIGNAL_EXIT: i32 = 128;

/// Longest program that is read, bytes. The sandbox has a lower limit and names it.
const MAX_CODE_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(super) struct ExecArgs {
    /// The program; '-' reads it from stdin
    #[arg(value_name = "FILE|-")]
    pub(super) file: PathBuf,
    /// python, javascript or bash [default: by the file's extension]
    #[arg(long, value_name = "LANGUAGE", value_parser = parse_language)]
    pub(super) lang: Option<Language>,
    /// lenient, standard or strict, not for bash [default: configured]
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub(super) strictness: Option<Level>,
    /// Time limit in seconds [default: that of the level]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) timeout_s: Option<u64>,
    /// Print the result record as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Skip the language check; the kernel confines the program either way
    #[arg(long)]
    pub(super) no_language_check: bool,
}

fn parse_language(text: &str) -> Result<Language, String> {
    match text {
        "python" | "py" => Ok(Language::Python),
        "javascript" | "js" => Ok(Language::JavaScript),
        "bash" | "sh" => Ok(Language::Bash),
        other => Err(format!("'{other}' is none of: python, javascript, bash")),
    }
}

fn parse_level(text: &str) -> Result<Level, String> {
    let levels = [Level::Lenient, Level::Standard, Level::Strict];
    let found = levels.into_iter().find(|level| level.name() == text);
    found.ok_or_else(|| format!("'{text}' is none of: lenient, standard, strict"))
}

/// Runs the program and exits with the program's exit code.
pub(super) fn exec(
    options: SandboxOptions,
    args: &ExecArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let language = args.lang.map_or_else(|| guess_language(&args.file), Ok)?;
    let level = level(language, args.strictness, &options)?;
    let mut program = Program::new(language, level, read_code(&args.file)?);
    program.language_check = !args.no_language_check;
    program.timeout_ms = args.timeout_s.map(|s| s.saturating_mul(1000));
    let sandbox = Sandbox::new(options).map_err(|e| {
        CliError::failed(format!("the sandbox cannot start: {e}"))
            .hint("run 'nanoclaw doctor' to see what is missing")
    })?;
    let record = sandbox.run(&program, &|| false);
    if args.json {
        let text = serde_json::to_string(&record).map_err(|e| CliError::failed(e.to_string()))?;
        terminal.line(&text)?;
    } else {
        terminal.data(&record.stdout)?;
        terminal.program_error(&record.stderr)?;
        explain(&record, terminal);
    }
    Ok(exit_code(&record))
}

/// The level to run at. Bash has a level of its own; a level that the configuration forbids is an error.
fn level(language: Language, requested: Option<Level>, options: &SandboxOptions) -> Result<Level, CliError> {
    if language == Language::Bash {
        let refusal = CliError::usage("--strictness is for python and javascript: bash has one level only")
            .hint("leave it out");
        return if requested.is_some() { Err(refusal) } else { Ok(Level::Shell) };
    }
    let level = requested.unwrap_or(options.default_strictness);
    let allowed = options.levels_allowed();
    if allowed.contains(&level) {
        return Ok(level);
    }
    let names: Vec<&str> = allowed.iter().map(|level| level.name()).collect();
    Err(CliError::usage(format!("--strictness {level} is not allowed here"))
        .hint(format!("code_execution.max_strictness_allowed leaves {}", names.join(", "))))
}

/// Prints why the program ended, unless its own output says so.
fn explain(record: &RunRecord, terminal: &Terminal) {
    let is_explained = matches!(record.status, RunStatus::Ok | RunStatus::Error);
    if is_explained || record.error.as_ref().is_some_and(|e| record.stderr.contains(e.as_str())) {
        return;
    }
    let reason = record.error.clone().unwrap_or_else(|| record.status.to_string());
    terminal.info(&format!("nanoclaw: {}: {reason}", record.status));
}

fn exit_code(record: &RunRecord) -> ExitCode {
    let code = match (record.status, record.exit_code, record.signal) {
        (RunStatus::Ok, ..) => 0,
        (RunStatus::Timeout, ..) => TIMEOUT_EXIT,
        (_, Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
        (_, None, Some(signal)) => u8::try_from(signal.saturating_add(SIGNAL_EXIT)).unwrap_or(1),
        _ => 1,
    };
    ExitCode::from(code)
}

fn guess_language(file: &Path) -> Result<Language, CliError> {
    match file.extension().and_then(|e| e.to_str()) {
        Some("py") => Ok(Language::Python),
        Some("js" | "mjs") => Ok(Language::JavaScript),
        Some("sh" | "bash") => Ok(Language::Bash),
        _ => Err(CliError::usage(format!("cannot tell the language of '{}'", file.display()))
            .hint("name it with --lang python, --lang javascript or --lang bash")),
    }
}

fn read_code(file: &Path) -> Result<String, CliError> {
    let cannot_read = |why: &dyn Display| {
        CliError::failed(format!("cannot read '{}': {why}", file.display()))
            .hint("a program is a file of UTF-8 text, or '-' for stdin")
    };
    let source = open_input(file).map_err(|error| cannot_read(&error))?;
    let mut bytes = Vec::new();
    source.take(MAX_CODE_BYTES).read_to_end(&mut bytes).map_err(|error| cannot_read(&error))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
        cannot_read(&format!("it is not UTF-8 text (line {line}, byte {valid})"))
    })
}
