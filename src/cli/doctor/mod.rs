//! `nanoclaw doctor`: checks what works on this machine and gives advice. It repairs nothing.

mod check;
mod database;
mod installation;
mod machine;
mod models;
mod sandbox;
pub(super) mod shared_dir;
mod skills;

use crate::app::sandbox_options;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::config::Config;
use check::DoctorCheck;
use nanoclaw_sandbox::Sandbox;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    /// Do not ask each model with a short call
    #[arg(long)]
    no_models: bool,
}

/// Prints the checks; exit code 1 if one fails. A configuration whose only fault is a missing model key is
/// checked without keys: only the service may have them.
pub(super) fn doctor(
    config: Result<Config, CliError>,
    load_keyless: impl FnOnce() -> Result<Config, CliError>,
    args: &DoctorArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let mut checks = vec![DoctorCheck::good("version", version).with(json!({"version": version}))];
    let (config, missing) = match config {
        Ok(config) => (Ok(config), None),
        Err(error) => match load_keyless() {
            Ok(config) => (Ok(config), Some(error.message().to_owned())),
            Err(_) => (Err(error), None),
        },
    };
    let options = match &config {
        Ok(config) => {
            checks.extend(installation::check_installation(config, missing.as_deref()));
            checks.extend(skills::check_skills(config));
            // Without its key, a model would only refuse.
            if !args.no_models && missing.is_none() {
                checks.extend(models::check_endpoints(config));
            }
            sandbox_options(config)
        }
        Err(error) => {
            let advice = error.advice().unwrap_or("mend the file, or run with --config another");
            checks.push(DoctorCheck::bad("config", error.message(), advice).with(json!({"file": null})));
            nanoclaw_sandbox::SandboxOptions::default()
        }
    };
    checks.extend(machine::check_limits(config.as_ref().ok()));
    match Sandbox::new(options) {
        Ok(sandbox) => {
            let report = sandbox.report();
            checks.push(machine::check_kernel(&report.kernel));
            checks.push(machine::check_landlock(report.landlock_abi));
            checks.push(machine::check_seccomp(report.seccomp));
            checks.extend(sandbox::check_sandbox(&report));
            checks.push(sandbox::check_own_files(&sandbox.missing_for_own_files()));
        }
        Err(error) => {
            let advice = "mend code_execution in the configuration";
            checks.push(DoctorCheck::bad("sandbox", error.to_string(), advice));
        }
    }
    let is_healthy = check::is_healthy(&checks);
    check::print(&checks, args.json, terminal)?;
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
