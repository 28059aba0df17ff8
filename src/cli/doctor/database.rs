//! Checks of the database of `store.url`: does it keep what it acknowledges, and can all nodes work with it.

use super::check::DoctorCheck;
use super::shared_dir::check_shared_dir;
use crate::app::database_options;
use crate::app::system::SystemClock;
use crate::config::Config;
use crate::domain::secret::Secret;
use crate::ports::ClusterView;
use crate::store::postgres::{ConnectionProtection, DatabaseReport, PostgresOptions, inspect};
use serde_json::json;

/// The oldest supported server.
const OLDEST_VERSION: u64 = 140_000;
/// Difference of clocks that is worth a warning, milliseconds.
const CLOCK_MS: u64 = 1_000;

/// All checks. Connects like a node, but does not join.
pub(super) fn check_database(config: &Config, url: &Secret) -> Vec<DoctorCheck> {
    let options = database_options(config, url);
    match inspect(&options, &SystemClock::new()) {
        Ok(report) => {
            let mut checks = check_report(&report, &options);
            checks.push(check_shared_dir(config, Some(&report)));
            checks
        }
        Err(error) => {
            let advice = "is store.url right, does the server run, and does its pg_hba.conf let this user in? Try: \
                          psql with the same URL";
            vec![DoctorCheck::bad("database", error.to_string(), advice), check_shared_dir(config, None)]
        }
    }
}

fn check_report(report: &DatabaseReport, options: &PostgresOptions) -> Vec<DoctorCheck> {
    let nodes = report.cluster.as_ref();
    vec![
        check_server(report),
        check_layout(report),
        check_durability(report),
        check_replication(report),
        check_clock(report),
        check_connections(report, options),
        check_encryption(report),
        check_notifications(report),
    ]
    .into_iter()
    .chain(nodes.map(check_nodes))
    .collect()
}

impl DatabaseReport {
    fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.setting(name).parse().unwrap_or_default()
    }
}

fn check_server(report: &DatabaseReport) -> DoctorCheck {
    let version = report.setting("server_version");
    let found = format!("PostgreSQL {version}, {} ms away", report.round_trip_ms);
    let isolation = report.setting("default_transaction_isolation");
    let check = if report.number("server_version_num") < OLDEST_VERSION {
        DoctorCheck::bad("database", format!("{found}: too old"), "use PostgreSQL 14 or later")
    } else if report.is_standby {
        let advice =
            "point store.url to the primary, or name all hosts and add target_session_attrs=read-write";
        DoctorCheck::bad("database", format!("{found}: a standby, which takes no writes"), advice)
    } else if isolation != "read committed" {
        let advice = "ALTER ROLE … SET default_transaction_isolation = 'read committed': nodes take turns by row locks";
        DoctorCheck::bad("database", format!("{found}, default_transaction_isolation = {isolation}"), advice)
    } else {
        DoctorCheck::good("database", found)
    };
    check
        .with(json!({"version": version, "round_trip_ms": report.round_trip_ms, "settings": report.settings}))
}

fn check_layout(report: &DatabaseReport) -> DoctorCheck {
    let name = "database_layout";
    let known = report.known_layout;
    let facts =
        json!({"layout": report.layout, "layout_of_this_version": known, "may_create": report.may_create});
    let check = match (report.layout, &report.layout_fault) {
        (_, Some(fault)) => {
            DoctorCheck::bad(name, fault.clone(), "use the version of the other nodes, or a newer one")
        }
        (Some(layout), None) if layout > known => DoctorCheck::warned(
            name,
            format!("layout {layout}, of a newer version; this one knows {known} and can work with it"),
            "finish the upgrade: the release after the newer one may not let this one work any more",
        ),
        (Some(layout), None) if layout == known => DoctorCheck::good(name, format!("layout {layout}")),
        (_, None) if !report.may_create => DoctorCheck::bad(
            name,
            "this user may not make tables in the schema",
            "GRANT CREATE ON SCHEMA … TO …, or start the first node once as a user who may",
        ),
        (Some(layout), None) => DoctorCheck::good(
            name,
            format!(
                "layout {layout}; the next start makes it {known}, while nodes of the version before go on"
            ),
        ),
        (None, None) => DoctorCheck::good(name, "no tables yet: the first start makes them"),
    };
    check.with(facts)
}

fn check_durability(report: &DatabaseReport) -> DoctorCheck {
    let commit = report.setting("synchronous_commit");
    let found = format!(
        "fsync = {}, full_page_writes = {}, synchronous_commit = {commit}",
        report.setting("fsync"),
        report.setting("full_page_writes")
    );
    let is_off = |name| report.setting(name) == "off";
    if is_off("fsync") {
        let advice = "set fsync = on: after a power loss the whole database may be unreadable";
        return DoctorCheck::bad("durability", found, advice);
    }
    if is_off("synchronous_commit") {
        let advice = "set synchronous_commit = on: accepted jobs may be lost when the database crashes (P1)";
        return DoctorCheck::bad("durability", found, advice);
    }
    if is_off("full_page_writes") {
        let advice = "set full_page_writes = on, unless the file system writes 8 KiB pages as a whole (ZFS)";
        return DoctorCheck::warned("durability", found, advice);
    }
    DoctorCheck::good("durability", found)
}

fn check_replication(report: &DatabaseReport) -> DoctorCheck {
    let name = "replication";
    let names = report.setting("synchronous_standby_names");
    let standbys = &report.standbys;
    let facts = json!({"standbys": standbys, "synchronous_standby_names": names});
    let waits = standbys.iter().any(|state| ["sync", "quorum"].contains(&state.as_str()));
    let is_local = ["off", "local"].contains(&report.setting("synchronous_commit"));
    let found = format!("{} standbys ({})", standbys.len(), standbys.join(", "));
    let check = if standbys.is_empty() && names.is_empty() {
        DoctorCheck::good(name, "no standby: the jobs are as safe as the disk of this database")
    } else if !names.is_empty() && !waits && !standbys.iter().any(|state| state == "unknown") {
        let advice = "start the standby, or commits wait for it for ever";
        DoctorCheck::bad(
            name,
            format!("{found}; none of synchronous_standby_names = {names} is connected"),
            advice,
        )
    } else if names.is_empty() || is_local {
        let advice = "a fail-over may lose the last accepted jobs and repeat tool calls (P1, P3): set \
                      synchronous_standby_names and synchronous_commit = on, or accept it";
        DoctorCheck::warned(name, format!("{found}; commits do not wait for them"), advice)
    } else {
        DoctorCheck::good(name, format!("{found}; commits wait for {names}"))
    };
    check.with(facts)
}

fn check_clock(report: &DatabaseReport) -> DoctorCheck {
    let name = "database_clock";
    let (offset_ms, side) = (
        report.clock_offset_ms.unsigned_abs(),
        if report.clock_offset_ms < 0 { "behind" } else { "ahead of" },
    );
    let found = format!("{offset_ms} ms {side} this machine's");
    let check = if offset_ms > CLOCK_MS {
        let advice = "set the clocks with NTP (chrony): leases and schedules follow the database, sessions and logs this \
                      machine";
        DoctorCheck::warned(name, found, advice)
    } else {
        DoctorCheck::good(name, found)
    };
    check.with(json!({"offset_ms": report.clock_offset_ms}))
}

/// The pool of each node, and the connections beside it.
fn check_connections(report: &DatabaseReport, options: &PostgresOptions) -> DoctorCheck {
    let name = "connections";
    let own = u64::try_from(options.all_connections()).unwrap_or(u64::MAX);
    let nodes = report.cluster.iter().flat_map(|view| &view.nodes).filter(|node| node.is_live());
    let others = nodes.filter(|node| node.name != options.node_name);
    let wanted = others.map(|node| node.connections.unwrap_or(own)).fold(own, u64::saturating_add);
    let most = report.number("max_connections");
    let free = most.saturating_sub(report.number("superuser_reserved_connections"));
    let found = format!("{} open; the nodes make up to {wanted} of {free}", report.connections);
    let check = if wanted > free {
        let advice = format!("raise max_connections above {most}, or lower store.connections on all nodes");
        DoctorCheck::bad(name, found, advice)
    } else {
        DoctorCheck::good(name, found)
    };
    check.with(json!({"open": report.connections, "of_nodes": wanted, "limit": free}))
}

fn check_encryption(report: &DatabaseReport) -> DoctorCheck {
    let name = "database_tls";
    let advice = "add sslmode=verify-full to store.url, and sslrootcert=FILE if an authority of your own has signed the \
                  server's certificate";
    match report.protection {
        ConnectionProtection::SameMachine => DoctorCheck::good(name, "the server is on this machine"),
        ConnectionProtection::Verified => {
            DoctorCheck::good(name, "encrypted, and the certificate is checked")
        }
        ConnectionProtection::Encrypted => {
            let found =
                "encrypted, but nobody checks the certificate: another server may pose as the database";
            DoctorCheck::warned(name, found, advice)
        }
        ConnectionProtection::Nothing => {
            DoctorCheck::warned(name, "not encrypted: the network can read all rows", advice)
        }
    }
}

fn check_notifications(report: &DatabaseReport) -> DoctorCheck {
    let name = "notifications";
    let proxy = report.has_proxy.then(|| {
        format!(
            "the server has another port than store.url; if PgBouncer stands between, let it pool sessions \
             (pool_mode = session), and set idle_in_transaction_session_timeout on the server (now {} ms) to the lease",
            report.setting("idle_in_transaction_session_timeout")
        )
    });
    let check = match report.notification_ms {
        Some(took_ms) => DoctorCheck::good(name, format!("arrive within {took_ms} ms")).advised(proxy),
        None => DoctorCheck::warned(
            name,
            "do not arrive: nodes find each other's jobs and events by looking, up to 2 s late",
            proxy.unwrap_or_else(|| "connect without PgBouncer, or with pool_mode = session".to_owned()),
        ),
    };
    check.with(json!({"took_ms": report.notification_ms, "has_proxy": report.has_proxy}))
}

fn check_nodes(view: &ClusterView) -> DoctorCheck {
    let told = |node: &crate::ports::ClusterNode| {
        let state = if node.is_live() { "live" } else { "lost" };
        format!("{} ({state}, version {}, {} jobs)", node.name, node.version, node.jobs)
    };
    let nodes: Vec<String> = view.nodes.iter().map(told).collect();
    let found = if nodes.is_empty() { "none runs".to_owned() } else { nodes.join(", ") };
    let warnings = view.warnings();
    let check = if warnings.is_empty() {
        DoctorCheck::good("nodes", found)
    } else {
        DoctorCheck::warned("nodes", found, warnings.join("; "))
    };
    check.with(json!({"nodes": view.nodes, "warnings": warnings}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn report() -> DatabaseReport {
        let settings = [
            ("server_version", "15.14"),
            ("server_version_num", "150014"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("synchronous_standby_names", ""),
            ("max_connections", "100"),
            ("superuser_reserved_connections", "3"),
            ("idle_in_transaction_session_timeout", "0"),
            ("default_transaction_isolation", "read committed"),
        ];
        DatabaseReport {
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            standbys: Vec::new(),
            is_standby: false,
            connections: 4,
            has_proxy: false,
            protection: ConnectionProtection::Verified,
            notification_ms: Some(1),
            round_trip_ms: 0,
            clock_offset_ms: 12,
            may_create: true,
            layout: Some(11),
            layout_fault: None,
            known_layout: 11,
            shared_dir_beacon: None,
            cluster: None,
        }
    }

    fn options(connections: usize) -> PostgresOptions {
        PostgresOptions {
            url: "host=/nowhere".to_owned().into(),
            node_name: "one".to_owned(),
            lease: Duration::from_secs(15),
            connections,
            uses_database_time: true,
            is_pooled: false,
            audit_entries: 1,
        }
    }

    /// The checks that are not plainly good, as JSON with their warnings.
    fn advised(report: &DatabaseReport, connections: usize) -> BTreeMap<String, String> {
        let checks = check_report(report, &options(connections));
        let value = serde_json::to_value(checks).expect("JSON");
        let checks = value.as_array().expect("checks").iter();
        let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        checks
            .filter(|check| !check["advice"].is_null())
            .map(|check| (text(check, "name"), format!("{} {}", check["ok"], text(check, "advice"))))
            .collect()
    }

    fn with(name: &str, value: &str) -> DatabaseReport {
        let mut report = report();
        report.settings.insert(name.to_owned(), value.to_owned());
        report
    }

    fn protected_by(protection: ConnectionProtection) -> DatabaseReport {
        DatabaseReport { protection, ..report() }
    }

    #[test]
    fn a_sound_database_needs_no_advice_and_each_fault_has_its_own() {
        assert_eq!(advised(&report(), 8), BTreeMap::new());
        for (found, connections, check, advice) in [
            (with("server_version_num", "130011"), 8, "database", "false use PostgreSQL 14"),
            (DatabaseReport { is_standby: true, ..report() }, 8, "database", "false point store.url"),
            (with("default_transaction_isolation", "serializable"), 8, "database", "false ALTER ROLE"),
            (with("fsync", "off"), 8, "durability", "false set fsync"),
            (with("synchronous_commit", "off"), 8, "durability", "false set synchronous_commit"),
            (with("full_page_writes", "off"), 8, "durability", "true set full_page_writes"),
            (
                DatabaseReport { standbys: vec!["async".to_owned()], ..report() },
                8,
                "replication",
                "true a fail-over",
            ),
            (with("synchronous_standby_names", "b"), 8, "replication", "false start the standby"),
            (
                DatabaseReport { clock_offset_ms: -5_000, ..report() },
                8,
                "database_clock",
                "true set the clocks",
            ),
            (report(), 97, "connections", "false raise max_connections above 100"),
            (protected_by(ConnectionProtection::Encrypted), 8, "database_tls", "true add sslmode"),
            (protected_by(ConnectionProtection::Nothing), 8, "database_tls", "true add sslmode"),
            (
                DatabaseReport { notification_ms: None, ..report() },
                8,
                "notifications",
                "true connect without",
            ),
            (
                DatabaseReport { has_proxy: true, ..report() },
                8,
                "notifications",
                "true the server has another port",
            ),
            (
                DatabaseReport { layout: Some(12), ..report() },
                8,
                "database_layout",
                "true finish the upgrade",
            ),
            (
                DatabaseReport { layout_fault: Some("too new".to_owned()), ..report() },
                8,
                "database_layout",
                "false use the version",
            ),
            (
                DatabaseReport { layout: None, may_create: false, ..report() },
                8,
                "database_layout",
                "false GRANT CREATE",
            ),
        ] {
            let advised = advised(&found, connections);
            assert_eq!(advised.len(), 1, "{check}: {advised:?}");
            assert!(advised.get(check).is_some_and(|told| told.starts_with(advice)), "{check}: {advised:?}");
        }
        let synchronous =
            DatabaseReport { standbys: vec!["sync".to_owned()], ..with("synchronous_standby_names", "b") };
        assert_eq!(advised(&synchronous, 8), BTreeMap::new());
    }
}
