//! `nanoclaw migrate`: moves the store from a file into a database, or back, and compares both.

use super::backup::transfer_error;
use super::error::CliError;
use super::terminal::Terminal;
use super::terminal::progress::TaskProgress;
use crate::store::{MigrationReport, StoreLocation, TableComparison, migrate as migrate_store};
use serde_json::json;
use std::process::ExitCode;

/// The word that stands for the URL of the configuration, so that no password is in the list of processes.
const CONFIGURED: &str = "store.url";

/// What the stores do not hold.
const FILES_STAY: &str = "files stay where they are: copy the directories files, jobs, memories and workspaces of the \
                          data directory into store.shared_dir, or back; the audit log of a server is the files in its \
                          directory audit, that of nodes is a table: neither is migrated, so keep the old one";

#[derive(Debug, clap::Args)]
pub(super) struct MigrateArgs {
    /// A store's file or backup, the URL of a database, or 'store.url' for the configured one
    #[arg(long, value_name = "STORE")]
    from: String,
    /// The same; it must not exist yet, or be the empty database or the rest of the same migration
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Print the tables with their rows, and whether they are equal, as JSON
    #[arg(long)]
    json: bool,
}

/// Copies all rows and compares them. Fails if a table differs.
pub(super) fn migrate(
    configured: impl Fn() -> Result<StoreLocation, CliError>,
    args: &MigrateArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let location = |text: &str| match text {
        CONFIGURED => configured(),
        text => Ok(StoreLocation::from(text)),
    };
    let (from, to) = (location(&args.from)?, location(&args.to)?);
    // A damaged file may make redb panic; the panic is caught and returned as an error.
    std::panic::set_hook(Box::new(|_| {}));
    let progress = TaskProgress::time("reading the source", terminal);
    let moved =
        migrate_store(&from, &to, &mut |table, rows| progress.describe(format!("{table}: {rows} rows")));
    progress.end();
    let report = moved.map_err(|error| transfer_error(&error))?;
    print(&report, args.json, terminal)?;
    if !report.is_equal() {
        terminal.info("the stores differ, and no server starts on the new one");
        terminal.info("hint: did a server use the source meanwhile? empty the target, and begin again");
        return Ok(ExitCode::FAILURE);
    }
    if report.set_aside > 0 {
        terminal.info(&format!("{} damaged rows that were set aside stay in the source", report.set_aside));
    }
    terminal.info("all rows are equal; jobs that were running are queued again when a server starts");
    terminal.info(FILES_STAY);
    Ok(ExitCode::SUCCESS)
}

fn print(report: &MigrationReport, as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if as_json {
        let table = |table: &TableComparison| {
            json!({"table": table.table, "source_rows": table.source_rows, "target_rows": table.target_rows,
                "equal": table.first_difference.is_none(), "first_difference": table.first_difference})
        };
        let tables: Vec<_> = report.tables.iter().map(table).collect();
        let result = json!({"equal": report.is_equal(), "continued": report.is_continued,
            "set_aside": report.set_aside, "tables": tables});
        return Ok(terminal.line(&result.to_string())?);
    }
    if report.is_continued {
        terminal.info("an earlier attempt was continued");
    }
    for TableComparison { table, source_rows, target_rows, first_difference } in &report.tables {
        let outcome = match first_difference {
            None => "equal".to_owned(),
            Some(difference) => format!("of {target_rows}: {difference}"),
        };
        terminal.line(&format!("{table:<26} {source_rows:>10} rows  {outcome}"))?;
    }
    Ok(())
}
