//! What the doctor finds of the sandbox: interpreters, optional layers, levels. Owns the words; refuses to judge a level
//! by anything but its self-test.

use super::finding::Finding;
use nanoclaw_sandbox::{LayersReport, SandboxReport};
use serde_json::json;

/// Interpreters, layers and levels.
pub(super) fn check_code(report: &SandboxReport) -> Vec<Finding> {
    let python = &report.python;
    let mut findings = vec![
        match (&python.path, &python.version) {
            (Some(path), Some(version)) => {
                Finding::good("python", format!("{version} at {}", path.display()))
            }
            _ => Finding::bad(
                "python",
                python.reason.clone().unwrap_or_else(|| "not found".to_owned()),
                "install Python 3.9 or later (apt-get install python3), or name it in code_execution.python",
            ),
        }
        .with(json!({"path": python.path, "version": python.version})),
        Finding::good("javascript", format!("{}, built in (no Node is needed)", report.javascript)),
    ];
    findings.extend(check_layers(&report.layers));
    findings.extend(report.levels.iter().map(|level| {
        let name = format!("sandbox_{}", level.level.name());
        if level.able {
            return Finding::good(name, "holds: every probe of the self-test was refused by the kernel");
        }
        let reason = level.reason.clone().unwrap_or_else(|| "cannot be enforced".to_owned());
        Finding::bad(name, reason, "code does not run at this level until what is missing above is there")
    }));
    findings
}

/// The optional layers: told, never a fault, for nothing relies on them. They are had by who starts a program: a server
/// under systemd may have others than this shell.
fn check_layers(layers: &LayersReport) -> [Finding; 2] {
    let (held, missing): (Vec<_>, Vec<_>) = layers.namespaces.iter().partition(|kind| kind.held);
    let mut found: Vec<String> = Vec::new();
    if !held.is_empty() {
        found.push(held.iter().map(|namespace| namespace.kind.as_str()).collect::<Vec<_>>().join(", "));
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
    found.extend(reasons.iter().map(|(reason, kinds)| format!("no {}: {reason}", kinds.join(", "))));
    let mut advice: Vec<&str> = layers.namespaces.iter().filter_map(|one| one.advice.as_deref()).collect();
    advice.dedup();
    let namespaces = Finding::good("namespaces", format!("optional; of this process: {}", found.join("; ")))
        .advised((!advice.is_empty()).then(|| format!("to have more: {}", advice.join("; "))))
        .with(json!({"namespaces": layers.namespaces}));
    let cgroup = &layers.cgroup;
    let place = cgroup.path.as_ref().map(|path| match &cgroup.controllers[..] {
        [] => format!("{} (kill only)", path.display()),
        some => format!("{} ({})", path.display(), some.join(", ")),
    });
    let words: Vec<String> = place.into_iter().chain(cgroup.reason.clone()).collect();
    let cgroup = Finding::good("cgroup", format!("optional; of this process: {}", words.join("; ")))
        .advised(cgroup.advice.as_ref().map(|advice| format!("to have more: {advice}")))
        .with(json!({"path": cgroup.path, "controllers": cgroup.controllers}));
    [namespaces, cgroup]
}
