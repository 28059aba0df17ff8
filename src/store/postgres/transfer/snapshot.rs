//! One snapshot of a database: all rows as of one moment, while nodes go on.

use crate::ports::StoreError;
use crate::store::postgres::pool::Connections;
use crate::store::postgres::session::failed;
use crate::store::postgres::transfer::access::{
    DatabaseError, LONG, LayoutUse, connect, newest_node, refuse_nodes, require_layout,
};
use crate::store::postgres::transfer::copy_text::read_row;
use crate::store::rows::transfer::TransferTable;
use crate::store::rows::transfer::text_row::TextRow;
use deadpool_postgres::ClientWrapper;
use futures_util::TryStreamExt;
use std::pin::pin;
use tokio_postgres::Row;

/// A transaction that reads.
pub(crate) struct Snapshot<'c> {
    pub(crate) client: ClientWrapper,
    connections: &'c Connections,
    first_node: i64,
}

impl<'c> Snapshot<'c> {
    /// Takes a snapshot. Blocks, as all functions here.
    pub(crate) fn take(connections: &'c Connections, layout_use: LayoutUse) -> Result<Self, DatabaseError> {
        connections.wait(async {
            let client = connect(connections).await?;
            require_layout(&client, layout_use).await?;
            let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {LONG}");
            client.batch_execute(&begin).await?;
            let first_node = newest_node(&client).await?;
            Ok(Self { client, connections, first_node })
        })
    }

    /// Fails if nodes use the database: a migration would lose what they write.
    pub(crate) fn refuse_nodes(&self) -> Result<(), DatabaseError> {
        self.connections.wait(refuse_nodes(&self.client))
    }

    /// Fails if a node has started since: what it wrote is not in the snapshot.
    pub(crate) fn refuse_newer_nodes(&self) -> Result<(), DatabaseError> {
        let newest = self.connections.wait(newest_node(&self.client))?;
        if newest == self.first_node { Ok(()) } else { Err(DatabaseError::Used) }
    }

    /// Names the database as it is now: a node that uses it changes this.
    pub(crate) fn identity(&self) -> Result<String, DatabaseError> {
        let sql = "SELECT current_database() || '.' || current_schema()";
        let place: String = self.connections.wait(self.client.query_typed_one(sql, &[]))?.get(0);
        Ok(format!("database {place} after node {}", self.first_node))
    }

    /// The rows that a statement returns.
    pub(crate) fn query(&self, sql: &str) -> Result<Vec<Row>, DatabaseError> {
        Ok(self.connections.wait(self.client.query_typed(sql, &[]))?)
    }

    /// Calls `each` with all rows of a table.
    pub(crate) fn each_row(
        &self,
        table: &TransferTable,
        each: &mut dyn FnMut(TextRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.connections.wait(self.copy(table, each))
    }

    async fn copy(
        &self,
        table: &TransferTable,
        each: &mut dyn FnMut(TextRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let copying = self.client.copy_out(&format!("COPY ({}) TO STDOUT", select(table))).await;
        let mut rows = pin!(copying.map_err(|error| failed(&error))?);
        let mut rest = Vec::new();
        while let Some(chunk) = rows.try_next().await.map_err(|error| failed(&error))? {
            rest.extend_from_slice(&chunk);
            let mut lines = rest.split_inclusive(|byte| *byte == b'\n').peekable();
            let mut read = 0;
            while let Some(line) = lines.next_if(|line| line.ends_with(b"\n")) {
                each(read_row(line.strip_suffix(b"\n").unwrap_or(line))?)?;
                read += line.len();
            }
            rest.drain(..read);
        }
        Ok(())
    }
}

/// The statement that returns the columns of a table.
fn select(table: &TransferTable) -> String {
    let columns = table.columns.join(", ");
    match table.name {
        "counters" => {
            let served: Vec<String> =
                (0..=9).map(|priority| format!("(SELECT last_value FROM served_{priority})")).collect();
            format!(
                "SELECT CASE WHEN is_called THEN last_value ELSE 0 END, {} FROM accept_numbers",
                served.join(", ")
            )
        }
        // The next start removes batches that were never accepted.
        "removed_batches" => format!(
            "SELECT {columns} FROM removed_batches UNION SELECT {columns} FROM unaccepted_batches ORDER BY 1"
        ),
        name => {
            let key = table.columns.get(..table.key).unwrap_or_default().join(", ");
            format!("SELECT {columns} FROM {name} ORDER BY {key}")
        }
    }
}
