//! `nanoclaw doctor`: what works on this machine, what does not, and what to do about it. Owns the advice; refuses to
//! repair anything.

use super::error::CliError;
use super::terminal::Terminal;
use crate::app::STORE_FILE;
use crate::config::Config;
use crate::llm::Router;
use crate::store::{Glance, glance};
use nanoclaw_sandbox::{LayersReport, Report, Sandbox};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// What `doctor` was asked.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// One finding.
struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
    advice: Option<String>,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, ok: true, found: found.into(), advice: None }
    }

    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what, ok: false, found: found.into(), advice: Some(advice.into()) }
    }
}

/// Prints the findings; the exit code is 1 when something does not work.
pub(super) fn doctor(
    config: &Result<Config, CliError>,
    args: &DoctorArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let mut findings = Vec::new();
    let options = match config {
        Ok(config) => {
            let file =
                config.file.as_ref().map_or("built-in defaults".to_owned(), |f| f.display().to_string());
            findings.push(Finding::good("config", file));
            findings.push(check_models(config));
            findings.push(check_data_dir(&config.data_dir));
            findings.push(check_store(&config.data_dir));
            config.code_execution.clone()
        }
        Err(error) => {
            findings.push(Finding::bad(
                "config",
                error.to_string(),
                "mend the file, or run with --config another",
            ));
            nanoclaw_sandbox::Options::default()
        }
    };
    match Sandbox::new(options) {
        Ok(sandbox) => findings.extend(check_sandbox(&sandbox.report())),
        Err(error) => findings.push(Finding::bad(
            "sandbox",
            error.to_string(),
            "mend code_execution in the configuration",
        )),
    }
    let healthy = findings.iter().all(|finding| finding.ok);
    print(&findings, args.json, terminal)?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_models(config: &Config) -> Finding {
    let ids: Vec<&str> = config.models.iter().map(|model| model.id.as_str()).collect();
    match Router::new(config.models.clone(), &config.limits) {
        Ok(_) => Finding::good("models", ids.join(", ")),
        Err(error) => Finding::bad("models", error.to_string(), "mend models in the configuration"),
    }
}

fn check_data_dir(dir: &Path) -> Finding {
    let shown = dir.display().to_string();
    let existing = dir.ancestors().find(|d| d.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::good("data directory", shown),
        Err(error) => Finding::bad(
            "data directory",
            format!("{shown}: {error}"),
            format!("let this user write to '{}', or choose another with --data-dir", existing.display()),
        ),
    }
}

fn check_store(dir: &Path) -> Finding {
    let file = dir.join(STORE_FILE);
    let shown = file.display().to_string();
    match glance(&file) {
        Ok(Glance::Store) => Finding::good("store", shown),
        Ok(Glance::Absent) => {
            Finding::good("store", format!("{shown}: not there yet, the first start makes it"))
        }
        Ok(Glance::Foreign) => Finding::bad(
            "store",
            format!("{shown} is not a store, or its beginning is damaged"),
            "restore it from a backup, or move it away and start anew",
        ),
        Err(error) => Finding::bad("store", format!("{shown}: {error}"), "let this user read and write it"),
    }
}

fn check_sandbox(report: &Report) -> Vec<Finding> {
    let mut findings = vec![Finding::good("kernel", report.kernel.clone())];
    findings.push(match report.landlock_abi {
        Some(abi) => Finding::good("landlock", format!("ABI {abi}")),
        None => {
            Finding::bad("landlock", "not there", "use a kernel of 5.15 or later with 'landlock' in lsm=")
        }
    });
    findings.push(if report.seccomp {
        Finding::good("seccomp", "filters")
    } else {
        Finding::bad("seccomp", "not there", "use a kernel with CONFIG_SECCOMP_FILTER")
    });
    findings.push(match (&report.python.path, &report.python.version) {
        (Some(path), Some(version)) => Finding::good("python", format!("{version} at {}", path.display())),
        _ => Finding::bad(
            "python",
            report.python.reason.clone().unwrap_or_else(|| "not found".to_owned()),
            "install Python 3.9 or later (apt-get install python3), or name it in code_execution.python",
        ),
    });
    findings.push(Finding::good("javascript", report.javascript.clone()));
    findings.push(check_layers(&report.layers));
    for level in &report.levels {
        findings.push(if level.able {
            Finding::good(level.level.name(), "holds: every probe of the self-test was refused by the kernel")
        } else {
            let reason = level.reason.clone().unwrap_or_else(|| "cannot be enforced".to_owned());
            Finding::bad(
                level.level.name(),
                reason,
                "code does not run at this level until the layer above is there",
            )
        });
    }
    findings
}

/// The optional layers: told, never a fault, for nothing relies on them. They are had by who starts a program: a server
/// under systemd may have others than this shell.
fn check_layers(layers: &LayersReport) -> Finding {
    let (held, missing): (Vec<_>, Vec<_>) = layers.namespaces.iter().partition(|kind| kind.held);
    let mut found = Vec::new();
    if !held.is_empty() {
        let kinds: Vec<&str> = held.iter().map(|namespace| namespace.kind.as_str()).collect();
        found.push(format!("namespaces: {}", kinds.join(", ")));
    }
    // What one obstacle keeps away is told in one breath.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for namespace in missing {
        let reason = namespace.reason.as_deref().unwrap_or("not there");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, kinds)) => kinds.push(&namespace.kind),
            None => reasons.push((reason, vec![&namespace.kind])),
        }
    }
    found
        .extend(reasons.iter().map(|(reason, kinds)| format!("no {} namespace: {reason}", kinds.join(", "))));
    let cgroup = &layers.cgroup;
    if let Some(path) = &cgroup.path {
        let controllers = if cgroup.controllers.is_empty() {
            "kill only".to_owned()
        } else {
            cgroup.controllers.join(", ")
        };
        found.push(format!("cgroup {} ({controllers})", path.display()));
    }
    if let Some(reason) = &cgroup.reason {
        let what = if cgroup.path.is_some() { "" } else { "no cgroup: " };
        found.push(format!("{what}{reason}"));
    }
    let advices = layers.namespaces.iter().map(|namespace| &namespace.advice).chain([&cgroup.advice]);
    let mut advice: Vec<&str> = advices.filter_map(Option::as_deref).collect();
    advice.dedup();
    Finding {
        what: "layers",
        ok: true,
        found: format!("optional; of this process: {}", found.join("; ")),
        advice: (!advice.is_empty()).then(|| format!("to have more: {}", advice.join("; "))),
    }
}

fn print(findings: &[Finding], as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if as_json {
        let list: Vec<Value> = findings
            .iter()
            .map(|f| json!({"check": f.what, "ok": f.ok, "found": f.found, "advice": f.advice}))
            .collect();
        return Ok(terminal.line(&json!({"ok": findings.iter().all(|f| f.ok), "checks": list}).to_string())?);
    }
    for finding in findings {
        let mark = if finding.ok { "ok  " } else { "FAIL" };
        terminal.line(&format!("{mark}  {:<14}  {}", finding.what, finding.found))?;
        if let Some(advice) = &finding.advice {
            terminal.line(&format!("      {:<14}  → {advice}", ""))?;
        }
    }
    Ok(())
}
