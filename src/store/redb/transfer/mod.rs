//! The rows of a file on their way from or to another store.

mod accounts;
mod batches;
mod conversations;
pub(crate) mod file;
mod files;
mod jobs;
pub(crate) mod logs;

use crate::domain::hex::hex;
use crate::ports::StoreError;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::{ReadableTable, TypedTable};
use crate::store::redb::codec::table_codec::TableCodec;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::codec::values;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::TextRow;
use crate::store::rows::transfer::{TransferRow, TransferTable, accounts as account_rows, error_in};
use crate::store::rows::transfer::{
    batches as batch_rows, conversations as conversation_rows, files as file_rows, jobs as job_rows,
};
use serde::de::DeserializeOwned;

/// Gets each row of a table.
pub(crate) type EachRow<'e, R> = dyn FnMut(R) -> Result<(), StoreError> + 'e;

/// A row that the file can read and write.
trait RedbRow: TransferRow {
    /// Reads all rows of the table.
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError>;
    /// Writes a row that the file does not have, with what is found by it.
    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError>;
}

/// A table, and how the file reads and writes its rows.
pub(crate) struct TransferredTable {
    pub(crate) table: TransferTable,
    pub(crate) each: fn(&ReadTransaction, &mut EachRow<'_, TextRow>) -> Result<(), StoreError>,
    pub(crate) put: fn(&TextRow, &mut Tables<'_>) -> Result<(), StoreError>,
}

impl TransferredTable {
    const fn of<R: RedbRow>() -> Self {
        Self { table: TransferTable::of::<R>(), each: each::<R>, put: put::<R> }
    }
}

fn each<R: RedbRow>(reading: &ReadTransaction, each: &mut EachRow<'_, TextRow>) -> Result<(), StoreError> {
    R::each(reading, &mut |row| each(row.columns()?))
}

fn put<R: RedbRow>(row: &TextRow, tables: &mut Tables<'_>) -> Result<(), StoreError> {
    R::read(row)
        .and_then(|read| read.put(tables))
        .map_err(|error| error_in(R::TABLE, &row.key(R::KEY), error))
}

/// All tables in the order in which they are copied.
pub(crate) const TABLES: &[TransferredTable] = &[
    TransferredTable::of::<job_rows::TransferCounters>(),
    TransferredTable::of::<account_rows::TransferAccount>(),
    TransferredTable::of::<account_rows::TransferToken>(),
    TransferredTable::of::<account_rows::TransferInvite>(),
    TransferredTable::of::<account_rows::TransferUsage<false>>(),
    TransferredTable::of::<account_rows::TransferUsage<true>>(),
    TransferredTable::of::<file_rows::TransferProject>(),
    TransferredTable::of::<file_rows::TransferDirectory>(),
    TransferredTable::of::<file_rows::TransferFile>(),
    TransferredTable::of::<file_rows::TransferImage>(),
    TransferredTable::of::<file_rows::TransferTotals>(),
    TransferredTable::of::<conversation_rows::TransferConversation>(),
    TransferredTable::of::<conversation_rows::TransferPair>(),
    TransferredTable::of::<conversation_rows::TransferTurn>(),
    TransferredTable::of::<conversation_rows::TransferSummary>(),
    TransferredTable::of::<conversation_rows::TransferItems>(),
    TransferredTable::of::<conversation_rows::TransferRemovedConversation>(),
    TransferredTable::of::<account_rows::TransferConversationUsage>(),
    TransferredTable::of::<account_rows::TransferConversationDay>(),
    TransferredTable::of::<batch_rows::TransferBatch>(),
    TransferredTable::of::<batch_rows::TransferLine>(),
    TransferredTable::of::<batch_rows::TransferRemovedBatch>(),
    TransferredTable::of::<job_rows::TransferSchedule>(),
    TransferredTable::of::<job_rows::TransferKey>(),
    TransferredTable::of::<job_rows::TransferAnswer>(),
    TransferredTable::of::<job_rows::TransferCheckpoint>(),
    TransferredTable::of::<job_rows::TransferCheckpointImport>(),
    TransferredTable::of::<job_rows::TransferDependent>(),
    TransferredTable::of::<job_rows::TransferSpanExport>(),
    TransferredTable::of::<job_rows::TransferDelivery>(),
    TransferredTable::of::<job_rows::TransferJob>(),
    TransferredTable::of::<job_rows::TransferRecord>(),
];

/// Calls `each` with all rows of a table of the file.
fn scan<K: TableCodec, V: TableCodec>(
    table: TypedTable<K, V>,
    reading: &ReadTransaction,
    mut each: impl for<'a> FnMut(K::Ref<'a>, V::Ref<'a>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let name = table.name();
    for entry in table.read(reading)?.iter()? {
        let (key, value) = entry?;
        each(key.value(), value.value()).map_err(|error| {
            let key = key.value();
            error_in(name, &hex(K::encode(&key).as_ref()), error)
        })?;
    }
    Ok(())
}

/// The document that a value holds.
fn document<T: DeserializeOwned>(value: &[u8]) -> Result<JsonDocument<T>, StoreError> {
    JsonDocument::read(values::decode_text(value)?)
}

/// The value that holds a document.
fn stored<T>(document: &JsonDocument<T>) -> Vec<u8> {
    // A value is a version and JSON.
    values::encode_text(&document.text)
}
