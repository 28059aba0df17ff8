//! A database that takes the rows of another store. While they are incomplete no node starts on it.

use crate::ports::StoreError;
use crate::store::postgres::migrations::{NEWEST, UNFINISHED_TRANSFER, migrate};
use crate::store::postgres::param_types::with_types;
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::{document, failed, read_document};
use crate::store::postgres::transfer::access::{DatabaseError, LONG, connect, layout, refuse_nodes};
use crate::store::postgres::transfer::copy_text::write_row;
use crate::store::rows::transfer::TransferTable;
use crate::store::rows::transfer::progress::TransferProgress;
use crate::store::rows::transfer::text_row::TextRow;
use bytes::Bytes;
use deadpool_postgres::{ClientWrapper, Transaction};
use futures_util::SinkExt;
use std::pin::pin;

/// The table without rows of its own: its columns are sequences.
const COUNTERS: &str = "counters";

/// Removes the setting with the progress.
const FORGET: &str = "DELETE FROM settings WHERE key = $1";

/// A database that is being filled.
pub(crate) struct TargetDatabase<'c> {
    client: ClientWrapper,
    connections: &'c Connections,
    progress: TransferProgress,
}

impl<'c> TargetDatabase<'c> {
    /// Makes the tables of an empty database, or continues a migration of the same source.
    pub(crate) fn open(
        connections: &'c Connections,
        source: String,
        tables: &[TransferTable],
    ) -> Result<Self, DatabaseError> {
        connections.wait(async {
            let mut client = connect(connections).await?;
            match layout(&client).await?.map(|found| found.newest) {
                None => {
                    let mut pooled = connections.pool.get().await.map_err(|_| StoreError::Unreachable)?;
                    migrate(&mut pooled).await?;
                }
                Some(NEWEST) => {}
                Some(found) => return Err(DatabaseError::Layout { found, known: NEWEST }),
            }
            refuse_nodes(&client).await?;
            let progress = begin(&mut client, source, tables).await?;
            // A node that starts from here on sees the setting; one that has started before must not find it.
            let refused = refuse_nodes(&client).await;
            if refused.is_err() && progress.table.is_empty() {
                client.execute_typed(FORGET, &with_types(&[&UNFINISHED_TRANSFER])).await?;
            }
            refused.map(|()| Self { client, connections, progress })
        })
    }

    /// How far the migration came.
    pub(crate) fn progress(&self) -> &TransferProgress {
        &self.progress
    }

    /// Adds rows of a table, in one transaction with the progress.
    pub(crate) fn put(
        &mut self,
        table: &TransferTable,
        rows: &[TextRow],
        progress: &TransferProgress,
    ) -> Result<(), StoreError> {
        let (before, after) = (document(&self.progress)?, document(progress)?);
        self.connections.wait(async {
            let transaction = begin_long(&mut self.client).await.map_err(|error| failed(&error))?;
            if table.name == COUNTERS {
                set_counters(&transaction, table, rows).await?;
            } else {
                copy_in(&transaction, table, rows).await?;
            }
            let sql = "UPDATE settings SET value = $2 WHERE key = $1 AND value = $3";
            let params = with_types(&[&UNFINISHED_TRANSFER, &after, &before]);
            let updated = transaction.execute_typed(sql, &params).await;
            if updated.map_err(|error| failed(&error))? != 1 {
                return Err(StoreError::Io("another migration writes to the database".to_owned()));
            }
            transaction.commit().await.map_err(|error| failed(&error))
        })?;
        self.progress = progress.clone();
        Ok(())
    }

    /// Gives running jobs to a node whose lease has ended, so that the first node that starts queues them
    /// again, as after a crash.
    pub(crate) fn complete(&mut self) -> Result<(), DatabaseError> {
        let sql = "WITH lost AS (SELECT EXISTS (SELECT FROM jobs WHERE status = 'running' AND lease_node IS NULL) AS jobs), \
                     node AS (INSERT INTO nodes (id, name, version, lease_until) \
                       SELECT nextval('node_ids'), 'migration', $1, clock_timestamp() - interval '1 second' \
                       FROM lost WHERE jobs RETURNING id) \
                   UPDATE jobs SET lease_node = node.id FROM node WHERE status = 'running' AND lease_node IS NULL";
        self.connections.wait(async {
            self.client.execute_typed(sql, &with_types(&[&env!("CARGO_PKG_VERSION")])).await?;
            Ok(self.client.batch_execute(&format!("BEGIN; {LONG}; ANALYZE; COMMIT")).await?)
        })
    }

    /// Lets nodes start.
    pub(crate) fn release(self) -> Result<(), DatabaseError> {
        self.connections.wait(self.client.execute_typed(FORGET, &with_types(&[&UNFINISHED_TRANSFER])))?;
        Ok(())
    }
}

async fn begin_long(client: &mut ClientWrapper) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LONG).await?;
    Ok(transaction)
}

/// Marks an empty database as the target of this source. Returns how far an earlier attempt came.
async fn begin(
    client: &mut ClientWrapper,
    source: String,
    tables: &[TransferTable],
) -> Result<TransferProgress, DatabaseError> {
    let transaction = begin_long(client).await?;
    transaction.batch_execute("LOCK TABLE settings IN EXCLUSIVE MODE").await?;
    let sql = "SELECT value FROM settings WHERE key = $1";
    if let Some(found) = transaction.query_typed_opt(sql, &with_types(&[&UNFINISHED_TRANSFER])).await? {
        let progress: TransferProgress = read_document(found.get(0))?;
        if progress.source != source {
            return Err(DatabaseError::OtherMigration { found: progress.source });
        }
        return Ok(progress);
    }
    for table in tables.iter().filter(|table| table.name != COUNTERS) {
        let sql = format!("SELECT EXISTS (SELECT FROM {})", table.name);
        if transaction.query_typed_one(&sql, &[]).await?.get::<_, bool>(0) {
            return Err(DatabaseError::NotEmpty { table: table.name });
        }
    }
    let progress = TransferProgress::begin(source);
    let sql = "INSERT INTO settings VALUES ($1, $2)";
    let text = document(&progress)?;
    transaction.execute_typed(sql, &with_types(&[&UNFINISHED_TRANSFER, &text])).await?;
    // The next start counts them again.
    transaction
        .batch_execute("DELETE FROM stored_bytes; DELETE FROM settings WHERE key = 'stored_bytes'")
        .await?;
    transaction.commit().await?;
    Ok(progress)
}

async fn copy_in(
    transaction: &Transaction<'_>,
    table: &TransferTable,
    rows: &[TextRow],
) -> Result<(), StoreError> {
    let mut text = Vec::new();
    for row in rows {
        write_row(row, &mut text);
    }
    let copied = async {
        let sql = format!("COPY {} ({}) FROM STDIN", table.name, table.columns.join(", "));
        let mut sink = pin!(transaction.copy_in(&sql).await?);
        sink.send(Bytes::from(text)).await?;
        sink.finish().await
    };
    let expected = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    match copied.await.map_err(|error| failed(&error))? {
        count if count == expected => Ok(()),
        count => Err(StoreError::Io(format!("{count} of {expected} rows of '{}' were copied", table.name))),
    }
}

/// Sets the sequences that stand for the columns.
async fn set_counters(
    transaction: &Transaction<'_>,
    table: &TransferTable,
    rows: &[TextRow],
) -> Result<(), StoreError> {
    for (column, cell) in rows.iter().flat_map(|row| table.columns.iter().zip(row.0.iter().flatten())) {
        let sequence = if *column == "accept" { "accept_numbers" } else { column };
        let value: i64 = cell.parse().map_err(|_| StoreError::Corrupt(format!("{column} is no number")))?;
        // 0 is no acceptance number: the sequence begins after it.
        if value > 0 {
            let sql = "SELECT setval($1::text::regclass, $2)";
            let set = transaction.execute_typed(sql, &with_types(&[&sequence, &value])).await;
            set.map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}
