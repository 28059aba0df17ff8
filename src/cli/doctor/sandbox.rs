//! Checks of the sandbox: interpreters, optional layers and levels.

use super::check::DoctorCheck;
use crate::app::missing_modules;
use nanoclaw_sandbox::{LayersReport, SandboxReport};
use serde_json::json;

pub(super) fn check_sandbox(report: &SandboxReport) -> Vec<DoctorCheck> {
    let python = &report.python;
    let mut findings = vec![
        match (&python.path, &python.version) {
            (Some(path), Some(version)) => {
                DoctorCheck::good("python", format!("{version} at {}", path.display()))
                    .advised(missing_modules(python).map(|fault| fault.to_string()))
            }
            _ => DoctorCheck::bad(
                "python",
                python.reason.clone().unwrap_or_else(|| "not found".to_owned()),
                "install Python 3.9 or later (apt-get install python3), or name it in code_execution.python",
            ),
        }
        .with(json!({
            "path": python.path, "version": python.version, "missing_modules": python.missing_modules,
        })),
        DoctorCheck::good("javascript", format!("{}, built in (no Node is needed)", report.javascript)),
    ];
    findings.extend(check_layers(&report.layers));
    findings.extend(report.levels.iter().map(|level| {
        let name = format!("sandbox_{}", level.level.name());
        if level.able {
            return DoctorCheck::good(name, "works: the kernel refused every probe of the self-test");
        }
        let reason = level.reason.clone().unwrap_or_else(|| "cannot be enforced".to_owned());
        let advice = if level.tested {
            "no code runs at this level until the missing parts above are there"
        } else {
            "the level could not be tested; a running server repeats its test until it can be made"
        };
        DoctorCheck::bad(name, reason, advice)
    }));
    findings
}

/// What commands do with their own files; what is missing is not a fault, because they get an honest error.
pub(super) fn check_own_files(missing: &[String]) -> DoctorCheck {
    if missing.is_empty() {
        return DoctorCheck::good("own_files", "commands can run, move and change the files that they make");
    }
    DoctorCheck::good("own_files", format!("commands work with limits: {}", missing.join("; ")))
        .with(json!({"missing": missing}))
}

/// What it means that the memory of commands is not limited by cgroups.
const WITHOUT_MEMORY_CGROUPS: &str = "the memory of a command is limited by process, not for all of them and the \
     kernel together: when this machine or its cgroup has little left, the largest run ends as oom";

/// The optional layers; a missing one is not a fault. They depend on how a program is started: a server
/// under systemd may have others than this shell.
fn check_layers(layers: &LayersReport) -> [DoctorCheck; 2] {
    let (active, missing): (Vec<_>, Vec<_>) = layers.namespaces.iter().partition(|kind| kind.held);
    let mut parts: Vec<String> = Vec::new();
    if !active.is_empty() {
        parts.push(active.iter().map(|namespace| namespace.kind.as_str()).collect::<Vec<_>>().join(", "));
    }
    // Namespaces that are missing for the same reason share one note.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for namespace in missing {
        let reason = namespace.reason.as_deref().unwrap_or("not there");
        match reasons.iter_mut().find(|(listed, _)| *listed == reason) {
            Some((_, kinds)) => kinds.push(&namespace.kind),
            None => reasons.push((reason, vec![&namespace.kind])),
        }
    }
    parts.extend(reasons.iter().map(|(reason, kinds)| format!("no {}: {reason}", kinds.join(", "))));
    let mut advice: Vec<&str> =
        layers.namespaces.iter().filter_map(|namespace| namespace.advice.as_deref()).collect();
    advice.dedup();
    let namespaces =
        DoctorCheck::good("namespaces", format!("optional; of this process: {}", parts.join("; ")))
            .advised((!advice.is_empty()).then(|| format!("to have more: {}", advice.join("; "))))
            .with(json!({"namespaces": layers.namespaces}));
    let cgroup = &layers.cgroup;
    let cgroup_text = cgroup.path.as_ref().map(|path| match &cgroup.controllers[..] {
        [] => format!("{} (kill only)", path.display()),
        controllers => format!("{} ({})", path.display(), controllers.join(", ")),
    });
    let has_memory = cgroup.controllers.iter().any(|name| name == "memory");
    let unlimited = (!has_memory).then(|| WITHOUT_MEMORY_CGROUPS.to_owned());
    let cgroup_parts: Vec<String> =
        cgroup_text.into_iter().chain(cgroup.reason.clone()).chain(unlimited).collect();
    let cgroup =
        DoctorCheck::good("cgroup", format!("optional; of this process: {}", cgroup_parts.join("; ")))
            .advised(cgroup.advice.as_ref().map(|advice| format!("to have more: {advice}")))
            .with(json!({"path": cgroup.path, "controllers": cgroup.controllers}));
    [namespaces, cgroup]
}
