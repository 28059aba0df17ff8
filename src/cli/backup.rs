//! `nanoclaw backup` and `nanoclaw restore`. A backup comes from the server that has the store open, or from
//! the store itself.

use super::error::CliError;
use super::store_target::{LocatedStore, StoreTarget};
use super::terminal::Terminal;
use super::terminal::progress::TaskProgress;
use crate::app::provide_data_dir;
use crate::ports::Clock;
use crate::store::{
    AtomicFile, FileProbe, OpenError, StoreLocation, TransferError, backup_closed, backup_database,
    probe_file, restore as restore_store,
};
use serde_json::json;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Bytes copied at once.
const PIECE_BYTES: usize = 256 * 1024;
const MIB: u64 = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// File for the copy
    file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print file, size and source as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// A file written by `nanoclaw backup`
    file: PathBuf,
    /// Print the paths of the store and of the kept previous one as JSON
    #[arg(long)]
    json: bool,
}

/// Copies the store. The file gets its name once the copy is complete.
pub(super) fn backup(
    target: impl FnOnce() -> Result<StoreTarget, CliError>,
    args: &BackupArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let path = args.file.display();
    if args.file.exists() && !args.force {
        return Err(CliError::failed(format!("'{path}' is there already"))
            .hint("choose another name, or replace it with --force"));
    }
    let target = target()?;
    let unwritable = |error| {
        CliError::failed(format!("cannot write '{path}': {error}"))
            .hint("name a file in a directory that you may write to")
    };
    let draft = AtomicFile::begin(&args.file).map_err(unwritable)?;
    let (bytes, source) = match &target {
        StoreTarget::Server(client) => {
            let (bytes, body) = client.download("/v1/backup")?;
            (receive(body, bytes, &draft, terminal)?, client.base().to_owned())
        }
        StoreTarget::Store(store) => {
            let progress = TaskProgress::time("copying the store", terminal);
            let copied = match &store.location {
                StoreLocation::File(store) => (copy_closed(store, &draft)?, store.display().to_string()),
                StoreLocation::Database(url) => {
                    let observe = &mut |table, rows| progress.describe(format!("{table}: {rows} rows"));
                    let copied = backup_database(url, &draft, observe);
                    let bytes = copied.map_err(|error| transfer_error(&error))?;
                    (bytes, "the database of store.url".to_owned())
                }
            };
            progress.end();
            copied
        }
    };
    match probe_file(draft.path()) {
        Ok(FileProbe::Store) => draft.finish().map_err(unwritable)?,
        _ => {
            return Err(CliError::failed(format!("{source} returned something that is not a store"))
                .hint("is it a NanoClaw server? name another with --server"));
        }
    }
    if args.json {
        let result = json!({"file": args.file, "bytes": bytes, "source": source});
        return Ok(terminal.line(&result.to_string())?);
    }
    terminal.info(&format!("{} MiB from {source}", bytes.div_ceil(MIB)));
    Ok(terminal.line(&path.to_string())?)
}

/// Replaces the store of the data directory by a backup; no server may have it open.
pub(super) fn restore(
    LocatedStore { location, data_dir, .. }: &LocatedStore,
    clock: &dyn Clock,
    args: &RestoreArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let StoreLocation::File(store) = location else {
        return Err(CliError::failed("the store of the configuration is a database (store.url)").hint(
            format!("fill an empty one: nanoclaw migrate --from '{}' --to store.url", args.file.display()),
        ));
    };
    provide_data_dir(data_dir).map_err(|error| {
        CliError::failed(error.to_string()).hint("name a directory that you may write to: --data-dir DIR")
    })?;
    // A damaged backup may make redb panic; the panic is caught and returned as an error.
    std::panic::set_hook(Box::new(|_| {}));
    let progress = TaskProgress::time("putting the backup in place", terminal);
    let previous =
        restore_store(store, &args.file, clock.now_ms() / 1_000).map_err(|error| explain(&error))?;
    progress.end();
    if args.json {
        return Ok(terminal.line(&json!({"store": store, "kept": previous}).to_string())?);
    }
    if let Some(previous) = previous {
        terminal.info(&format!("the previous store is kept as {}", previous.display()));
    }
    terminal.info("jobs that were queued or running in the backup run again when the server starts");
    Ok(terminal.line(&store.display().to_string())?)
}

/// Copies the server's stream into the file. A stream that ends early is an error, not a small backup.
fn receive(
    mut body: Box<dyn Read>,
    expected: Option<u64>,
    draft: &AtomicFile,
    terminal: &Terminal,
) -> Result<u64, CliError> {
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut received, progress) = (0_u64, TaskProgress::bytes(expected, terminal));
    let incomplete = |what: String| CliError::failed(what).hint("nothing of it was kept: try again");
    loop {
        let count =
            body.read(&mut buffer).map_err(|error| incomplete(format!("the backup broke off: {error}")))?;
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
        let written = draft.file().write_all(chunk);
        written.map_err(|error| {
            CliError::failed(format!("cannot write '{}': {error}", draft.path().display()))
                .hint("is the disk full? choose another place")
        })?;
        received = received.saturating_add(count as u64);
        progress.show(received);
    }
    progress.end();
    match expected {
        Some(expected) if expected != received => {
            Err(incomplete(format!("the backup broke off after {received} of {expected} bytes")))
        }
        _ => Ok(received),
    }
}

fn copy_closed(store: &Path, draft: &AtomicFile) -> Result<u64, CliError> {
    match probe_file(store) {
        Ok(FileProbe::Absent) => Err(CliError::failed(format!(
            "there is no store at '{}', and no server answers for it",
            store.display()
        ))
        .hint("name the server with --server, or the directory with --data-dir")),
        _ => backup_closed(store, draft).map_err(|error| explain(&error)),
    }
}

pub(super) fn transfer_error(error: &TransferError) -> CliError {
    CliError::failed(error.to_string()).hint(error.advice())
}

pub(super) fn explain(error: &OpenError) -> CliError {
    CliError::failed(error.to_string()).hint(error.advice())
}
