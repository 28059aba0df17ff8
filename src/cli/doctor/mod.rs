//! `nanoclaw doctor`: what works on this machine, what does not, and what to do about it. Owns what is looked at and in
//! which order; refuses to repair anything.

mod code;
mod finding;
mod home;
mod machine;

use super::error::CliError;
use super::terminal::Terminal;
use crate::config::Config;
use finding::Finding;
use nanoclaw_sandbox::Sandbox;
use serde_json::json;
use std::process::ExitCode;

/// What `doctor` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the findings; the exit code is 1 when something does not work. A configuration that holds but for its keys, which
/// may be the service's alone, is looked at without them.
pub(super) fn doctor(
    config: Result<Config, CliError>,
    load_keyless: impl FnOnce() -> Result<Config, CliError>,
    args: &DoctorArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let mut findings = vec![Finding::good("version", version).with(json!({"version": version}))];
    let (config, missing) = match config {
        Ok(config) => (Ok(config), None),
        Err(error) => match load_keyless() {
            Ok(config) => (Ok(config), Some(error.message().to_owned())),
            Err(_) => (Err(error), None),
        },
    };
    let options = match &config {
        Ok(config) => {
            findings.extend(home::check_home(config, missing.as_deref()));
            config.code_execution.clone()
        }
        Err(error) => {
            let advice = error.advice().unwrap_or("mend the file, or run with --config another");
            findings.push(Finding::bad("config", error.message(), advice).with(json!({"file": null})));
            nanoclaw_sandbox::SandboxOptions::default()
        }
    };
    findings.extend(machine::check_limits(config.as_ref().ok()));
    match Sandbox::new(options) {
        Ok(sandbox) => {
            let report = sandbox.report();
            findings.push(machine::check_kernel(&report.kernel));
            findings.push(machine::check_landlock(report.landlock_abi));
            findings.push(machine::check_seccomp(report.seccomp));
            findings.extend(code::check_code(&report));
        }
        Err(error) => {
            let advice = "mend code_execution in the configuration";
            findings.push(Finding::bad("sandbox", error.to_string(), advice));
        }
    }
    let is_healthy = finding::is_healthy(&findings);
    finding::print(&findings, args.json, terminal)?;
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
