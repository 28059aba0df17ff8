//! Checks of a server's installation: configuration, data directory, store, and the running server. Does not
//! open the store for writing.

use super::check::DoctorCheck;
use super::database::check_database;
use crate::app::{STORE_FILE, mcp_host, read_control_file};
use crate::cli::client::{ApiClient, RequestError};
use crate::cli::configuration::with_keys;
use crate::config::Config;
use crate::llm::Router;
use crate::mcp::program_access;
use crate::store::{FileProbe, LAYOUT, LayoutProbe, OpenError, check, had_store, layout, probe_file};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// All checks; `missing` names a model key that this user does not have.
pub(super) fn check_installation(config: &Config, missing: Option<&str>) -> Vec<DoctorCheck> {
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let file_text = file.clone().unwrap_or_else(|| "built-in defaults".to_owned());
    let advice = missing.map(|reason| {
        format!("checked without the keys of models, which only the service may have: {reason}")
    });
    let warnings = config.warnings.clone();
    let notes = [advice, config.original_keys_note()].into_iter().flatten().chain(warnings.clone());
    let advice = notes.collect::<Vec<_>>().join("; ");
    let config_check = match (warnings.is_empty(), advice.is_empty()) {
        (true, true) => DoctorCheck::good("config", file_text),
        (true, false) => DoctorCheck::good("config", file_text).advised(Some(advice)),
        (false, _) => DoctorCheck::warned("config", file_text, advice),
    };
    let facts = json!({"file": file, "warnings": warnings});
    let store = match &config.store.url {
        Some(url) => check_database(config, url),
        None => vec![check_store(&config.data_dir)],
    };
    vec![
        config_check.with(facts),
        check_models(config, missing.is_some()),
        check_data_dir(&config.data_dir),
        check_disk(config),
    ]
    .into_iter()
    .chain(store)
    .chain([check_server(&config.data_dir)])
    .chain(check_mcp(config))
    .collect()
}

/// The programs of MCP servers; `None` without any. The server's own check tells whether they run.
fn check_mcp(config: &Config) -> Option<DoctorCheck> {
    let host = mcp_host(config);
    let enabled: Vec<_> = config.mcp_servers.iter().filter(|(_, server)| !server.disabled).collect();
    let names: Vec<&str> = enabled.iter().map(|(name, _)| name.as_str()).collect();
    let found = enabled.iter().map(|(name, server)| (name, server, program_access(name, server, &host)));
    let (mut missing, mut closed) = (Vec::new(), Vec::new());
    for (name, server, access) in found {
        if !access.is_installed {
            missing.push(format!("{name} ({})", server.command.as_deref().unwrap_or_default()));
        }
        closed.extend(access.refused.into_iter().map(|reason| format!("{name}: {reason}")));
    }
    let facts = json!({"servers": names, "missing": missing, "closed": closed});
    let check = match (names.is_empty(), missing.is_empty()) {
        (true, _) => return None,
        (false, true) => DoctorCheck::good("mcp", names.join(", ")),
        (false, false) => DoctorCheck::bad(
            "mcp",
            format!("programs that are not found: {}", missing.join(", ")),
            "install them (npx comes with Node.js, uvx with uv), or correct command in mcp_servers",
        ),
    };
    let advice = Some(closed.join("; ")).filter(|advice| !advice.is_empty());
    Some(if advice.is_some() { check.advised(advice) } else { check }.with(facts))
}

fn check_models(config: &Config, is_keyless: bool) -> DoctorCheck {
    let ids: Vec<&str> = config.models.iter().map(|model| model.id.as_str()).collect();
    let models = if is_keyless { with_keys(config.models.clone()) } else { config.models.clone() };
    let check = match Router::new(models, &config.limits) {
        Ok(_) => DoctorCheck::good("models", ids.join(", ")),
        Err(error) => DoctorCheck::bad("models", error.to_string(), "correct models in the configuration"),
    };
    check.with(json!({"ids": ids, "default": config.default_model}))
}

/// The nearest existing directory.
fn existing(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"))
}

fn check_data_dir(dir: &Path) -> DoctorCheck {
    let (path, existing) = (dir.display().to_string(), existing(dir));
    let check = match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => DoctorCheck::good("data_directory", path.clone()),
        Err(error) => DoctorCheck::bad(
            "data_directory",
            format!("{path}: {error}"),
            format!("let this user write to '{}', or choose another with --data-dir", existing.display()),
        ),
    };
    check.with(json!({"path": path}))
}

fn check_disk(config: &Config) -> DoctorCheck {
    let stat = match rustix::fs::statvfs(existing(&config.data_dir)) {
        Ok(stat) => stat,
        Err(error) => return DoctorCheck::bad("disk", error.to_string(), "is the disk mounted?"),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    let min_free = config.limits.disk_free_bytes;
    let check = DoctorCheck::good("disk", format!("{} MiB of {} MiB are free", free / MIB, total / MIB));
    let advice = (free < min_free).then(|| {
        format!(
            "below limits.disk_free_bytes = {min_free} new jobs are refused (507): free some space, or lower it"
        )
    });
    check.advised(advice).with(json!({"free_bytes": free, "total_bytes": total}))
}

fn check_store(dir: &Path) -> DoctorCheck {
    let file = dir.join(STORE_FILE);
    let path = file.display().to_string();
    let bytes = std::fs::metadata(&file).map(|check| check.len()).ok();
    let mut version = None;
    let check = match probe_file(&file) {
        Ok(FileProbe::Store) => {
            let layout_probe = layout(&file);
            version = if let LayoutProbe::Known(version) = layout_probe { Some(version) } else { None };
            let text = format!("{path}: {} KiB", bytes.unwrap_or(0) / 1024);
            let damage = match layout_probe {
                LayoutProbe::Known(LAYOUT) | LayoutProbe::NeedsRecovery => check_rows(&file, &text),
                _ => None,
            };
            damage.unwrap_or_else(|| check_layout(&text, layout_probe))
        }
        Ok(FileProbe::Absent) if had_store(&file) => DoctorCheck::bad(
            "store",
            format!("{path} is missing, although this directory had a store"),
            "mount its disk, or restore a backup; nanoclaw serve --new-store starts with an empty one",
        ),
        Ok(FileProbe::Absent) => {
            DoctorCheck::good("store", format!("{path}: not there yet, the first start makes it"))
        }
        Ok(FileProbe::Foreign) => DoctorCheck::bad(
            "store",
            format!("{path} is not a store, or its beginning is damaged"),
            "restore it from a backup, or move it away and start with an empty one",
        ),
        Err(error) => {
            DoctorCheck::bad("store", format!("{path}: {error}"), "let this user read and write it")
        }
    };
    check.with(json!({"path": path, "bytes": bytes, "layout": version, "layout_of_this_version": LAYOUT}))
}

/// The check for a store that cannot be read completely. A server may have started meanwhile.
fn check_rows(file: &Path, text: &str) -> Option<DoctorCheck> {
    let reason = match check(file) {
        Ok(Some(report)) if report.damaged > 0 => report.to_string(),
        Ok(_) | Err(OpenError::Locked { .. } | OpenError::Io { .. }) => return None,
        Err(error) => error.to_string(),
    };
    let advice = "run 'nanoclaw check' for all damaged rows, and restore a backup from before";
    Some(DoctorCheck::bad("store", format!("{text}, damaged: {reason}"), advice))
}

/// The check for what was found in the file of the store.
fn check_layout(path: &str, layout_probe: LayoutProbe) -> DoctorCheck {
    match layout_probe {
        LayoutProbe::Known(version) if version > LAYOUT => DoctorCheck::bad(
            "store",
            format!("{path}, of a newer version (layout {version}, this one supports up to {LAYOUT})"),
            "use the version that has written it, or restore a backup from before",
        ),
        LayoutProbe::Known(version) if version < LAYOUT => {
            let advice = format!(
                "the next start migrates it to layout {LAYOUT}: it keeps a copy, and needs about 2.2 times its size of free \
                 disk"
            );
            DoctorCheck::good("store", format!("{path}, layout {version}")).advised(Some(advice))
        }
        LayoutProbe::Known(version) => DoctorCheck::good("store", format!("{path}, layout {version}")),
        LayoutProbe::Empty => DoctorCheck::good("store", format!("{path}, nothing in it yet")),
        // The process that has locked it has checked it.
        LayoutProbe::Locked => DoctorCheck::good("store", format!("{path}, in use")),
        LayoutProbe::NeedsRecovery => {
            DoctorCheck::good("store", format!("{path}, was not closed; the next start recovers it"))
        }
        LayoutProbe::Damaged(reason) => DoctorCheck::bad(
            "store",
            format!("{path}, damaged: {reason}"),
            "restore it from a backup, or move it away and start with an empty one",
        ),
    }
}

/// Checks the server named in control.json. A killed server leaves the file behind, which is not a fault.
fn check_server(dir: &Path) -> DoctorCheck {
    let control = match read_control_file(dir) {
        Ok(Some(control)) => control,
        Ok(None) => {
            let facts = json!({"address": null, "reachable": false, "readiness": null});
            return DoctorCheck::good("server", "none runs with this data directory").with(facts);
        }
        Err(error) => {
            let advice =
                "look at control.json in the data directory; the server writes it again at its start";
            return DoctorCheck::bad("server", error.to_string(), advice);
        }
    };
    let address = control.address;
    let facts = |reachable: bool, readiness: Option<&Value>| {
        let (address, readiness) = (address.as_str(), readiness.cloned());
        json!({"address": address, "reachable": reachable, "readiness": readiness})
    };
    let Ok(client) = ApiClient::new(&address, Some(&control.key)) else {
        return DoctorCheck::bad("server", format!("not an address: {address}"), "restart the server");
    };
    match client.is_responding() {
        Ok(true) => {}
        Ok(false) => {
            let result = format!("{address} takes connections, but does not answer");
            return DoctorCheck::bad("server", result, "see its log, and restart it")
                .with(facts(false, None));
        }
        Err(_) => {
            let result = format!("no server answers at {address}; a killed server leaves its address behind");
            let advice = "if it should run: start it, and see its log";
            return DoctorCheck::good("server", result)
                .advised(Some(advice.to_owned()))
                .with(facts(false, None));
        }
    }
    if let Err(RequestError::Refused(401, _)) = client.get_waiting("/api/users?limit=1", Duration::ZERO) {
        let result = format!("none runs with this data directory; another server answers at {address}");
        let advice =
            "a killed server leaves its address behind; if it should run: start it at an address of its own";
        return DoctorCheck::good("server", result).advised(Some(advice.to_owned())).with(facts(false, None));
    }
    match client.readiness() {
        Ok(readiness) => check_readiness(&address, &readiness).with(facts(true, Some(&readiness))),
        Err(reason) => {
            let result = format!("{address} is up, but does not say whether it is ready: {reason}");
            DoctorCheck::bad("server", result, "see its log; is it of this version?").with(facts(true, None))
        }
    }
}

/// The check for the server's own readiness report.
fn check_readiness(address: &str, readiness: &Value) -> DoctorCheck {
    let text =
        |object: &Value, key: &str| object.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let status = text(readiness, "status");
    let checks = readiness.get("checks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let reasons: Vec<String> = checks
        .iter()
        .filter(|check| check.get("ok") != Some(&Value::Bool(true)) || check.get("reason").is_some())
        .map(|check| format!("{}: {}", text(check, "name"), text(check, "reason")))
        .collect();
    let reasons = Some(reasons.join("; ")).filter(|text| !text.is_empty());
    if matches!(status.as_str(), "ok" | "degraded") {
        return DoctorCheck::good("server", format!("{address} is up: {status}")).advised(reasons);
    }
    let result = format!("{address} is up, but not ready: {}", reasons.unwrap_or(status));
    DoctorCheck::bad("server", result, "correct what it names; see also its log")
}
