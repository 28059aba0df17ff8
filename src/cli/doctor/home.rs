//! What the doctor finds of a server's home: its configuration, its data directory, the store in it, and the server that
//! runs over it. Refuses to disturb that server, and to open the store for writing.

use super::finding::Finding;
use crate::app::{STORE_FILE, control_in};
use crate::cli::client::Client;
use crate::cli::configuration::with_keys;
use crate::config::Config;
use crate::llm::Router;
use crate::store::{FileProbe, LAYOUT, LayoutProbe, layout, probe_file};
use serde_json::{Value, json};
use std::path::Path;

const MIB: u64 = 1024 * 1024;

/// Everything about it; `missing` is the key that this user does not have.
pub(super) fn check_home(config: &Config, missing: Option<&str>) -> Vec<Finding> {
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let shown = file.clone().unwrap_or_else(|| "built-in defaults".to_owned());
    let advice = missing.map(|why| {
        format!(
            "looked at without the keys of models, which the service may have where this user does not: {why}"
        )
    });
    vec![
        Finding::good("config", shown).advised(advice).with(json!({"file": file})),
        check_models(config, missing.is_some()),
        check_data_dir(&config.data_dir),
        check_disk(config),
        check_store(&config.data_dir),
        check_server(&config.data_dir),
    ]
}

fn check_models(config: &Config, is_keyless: bool) -> Finding {
    let ids: Vec<&str> = config.models.iter().map(|model| model.id.as_str()).collect();
    let models = if is_keyless { with_keys(config.models.clone()) } else { config.models.clone() };
    let found = match Router::new(models, &config.limits) {
        Ok(_) => Finding::good("models", ids.join(", ")),
        Err(error) => Finding::bad("models", error.to_string(), "mend models in the configuration"),
    };
    found.with(json!({"ids": ids, "default": config.default_model}))
}

/// The nearest directory that is there.
fn existing(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"))
}

fn check_data_dir(dir: &Path) -> Finding {
    let (shown, existing) = (dir.display().to_string(), existing(dir));
    let found = match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::good("data_directory", shown.clone()),
        Err(error) => Finding::bad(
            "data_directory",
            format!("{shown}: {error}"),
            format!("let this user write to '{}', or choose another with --data-dir", existing.display()),
        ),
    };
    found.with(json!({"path": shown}))
}

fn check_disk(config: &Config) -> Finding {
    let stat = match rustix::fs::statvfs(existing(&config.data_dir)) {
        Ok(stat) => stat,
        Err(error) => return Finding::bad("disk", error.to_string(), "is the disk mounted?"),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    let least = config.limits.disk_free_bytes;
    let found = Finding::good("disk", format!("{} MiB of {} MiB are free", free / MIB, total / MIB));
    let advice = (free < least).then(|| {
        format!(
            "below limits.disk_free_bytes = {least} new jobs are refused (507): free some space, or lower it"
        )
    });
    found.advised(advice).with(json!({"free_bytes": free, "total_bytes": total}))
}

fn check_store(dir: &Path) -> Finding {
    let file = dir.join(STORE_FILE);
    let shown = file.display().to_string();
    let bytes = std::fs::metadata(&file).map(|found| found.len()).ok();
    let mut version = None;
    let found = match probe_file(&file) {
        Ok(FileProbe::Store) => {
            let sight = layout(&file);
            version = if let LayoutProbe::Known(version) = sight { Some(version) } else { None };
            judge(&format!("{shown}: {} KiB", bytes.unwrap_or(0) / 1024), sight)
        }
        Ok(FileProbe::Absent) => {
            Finding::good("store", format!("{shown}: not there yet, the first start makes it"))
        }
        Ok(FileProbe::Foreign) => Finding::bad(
            "store",
            format!("{shown} is not a store, or its beginning is damaged"),
            "restore it from a backup, or move it away and start anew",
        ),
        Err(error) => Finding::bad("store", format!("{shown}: {error}"), "let this user read and write it"),
    };
    found.with(json!({"path": shown, "bytes": bytes, "layout": version, "layout_of_this_version": LAYOUT}))
}

/// What a look at the store's file means.
fn judge(shown: &str, sight: LayoutProbe) -> Finding {
    match sight {
        LayoutProbe::Known(found) if found > LAYOUT => Finding::bad(
            "store",
            format!("{shown}, of a newer version (layout {found}, this one knows up to {LAYOUT})"),
            "use the version that has written it, or restore a backup from before",
        ),
        LayoutProbe::Known(found) if found < LAYOUT => {
            let advice = format!(
                "the next start migrates it to layout {LAYOUT}: it keeps a copy, and needs about 2.2 times its size of free \
                 disk"
            );
            Finding::good("store", format!("{shown}, layout {found}")).advised(Some(advice))
        }
        LayoutProbe::Known(found) => Finding::good("store", format!("{shown}, layout {found}")),
        LayoutProbe::Empty => Finding::good("store", format!("{shown}, nothing in it yet")),
        // That server would not run with a store that it cannot read.
        LayoutProbe::Locked => Finding::good("store", format!("{shown}, in use")),
        LayoutProbe::NeedsRecovery => {
            Finding::good("store", format!("{shown}, was not closed; the next start recovers it"))
        }
        LayoutProbe::Damaged(why) => Finding::bad(
            "store",
            format!("{shown}, damaged: {why}"),
            "restore it from a backup, or move it away and start anew",
        ),
    }
}

/// The server that has left its address in the data directory. A killed one leaves it behind, which is no fault.
fn check_server(dir: &Path) -> Finding {
    let control = match control_in(dir) {
        Ok(Some(control)) => control,
        Ok(None) => {
            let facts = json!({"address": null, "reachable": false, "readiness": null});
            return Finding::good("server", "none runs over this data directory").with(facts);
        }
        Err(error) => {
            let advice = "look at control.json in the data directory; a start of the server writes it anew";
            return Finding::bad("server", error.to_string(), advice);
        }
    };
    let address = control.address;
    let told = |reachable: bool, readiness: Option<&Value>| {
        let (address, readiness) = (address.as_str(), readiness.cloned());
        json!({"address": address, "reachable": reachable, "readiness": readiness})
    };
    // Without the key: readiness is for everybody.
    let Ok(client) = Client::new(&address, None) else {
        return Finding::bad("server", format!("no address: {address}"), "start the server anew");
    };
    match client.answers() {
        Ok(true) => {}
        Ok(false) => {
            let found = format!("{address} takes connections, but does not answer");
            return Finding::bad("server", found, "see its log, and start it anew").with(told(false, None));
        }
        Err(_) => {
            let found = format!("nobody answers at {address}; one that was killed leaves its address behind");
            let advice = "if it should run: start it, and see its log";
            return Finding::good("server", found).advised(Some(advice.to_owned())).with(told(false, None));
        }
    }
    match client.readiness() {
        Ok(readiness) => judge_server(&address, &readiness).with(told(true, Some(&readiness))),
        Err(why) => {
            let found = format!("{address} is up, but does not say whether it is ready: {why}");
            Finding::bad("server", found, "see its log; is it of this version?").with(told(true, None))
        }
    }
}

/// What a server says of itself; each check that has something to say is named.
fn judge_server(address: &str, readiness: &Value) -> Finding {
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let status = text(readiness, "status");
    let checks = readiness.get("checks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let reasons: Vec<String> = checks
        .iter()
        .filter(|check| check.get("ok") != Some(&Value::Bool(true)) || check.get("reason").is_some())
        .map(|check| format!("{}: {}", text(check, "name"), text(check, "reason")))
        .collect();
    let said = Some(reasons.join("; ")).filter(|said| !said.is_empty());
    if matches!(status.as_str(), "ok" | "degraded") {
        return Finding::good("server", format!("{address} is up: {status}")).advised(said);
    }
    let found = format!("{address} is up, but not ready: {}", said.unwrap_or(status));
    Finding::bad("server", found, "mend what it names; its log says more")
}
