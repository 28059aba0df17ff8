//! Checks a database as `nanoclaw check` checks a file.

use crate::domain::secret::Secret;
use crate::domain::stored_file::ContentDigest;
use crate::ports::BEACON_SETTING;
use crate::store::postgres::transfer::access::{LayoutUse, connections};
use crate::store::postgres::transfer::check::CheckReport;
use crate::store::postgres::transfer::snapshot::Snapshot;
use crate::store::redb::StoreCheck;
use crate::store::redb::transfer::TABLES;
use crate::store::rows::transfer::TransferTable;
use crate::store::rows::transfer::text_row::TextRow;
use crate::store::transfer::error::TransferError;

impl CheckReport for StoreCheck {
    fn count_row(&mut self, table: &TransferTable, row: &TextRow) {
        self.rows = self.rows.saturating_add(1);
        if ["files", "images"].contains(&table.name) {
            let cell = |wanted: &str| {
                let at = table.columns.iter().position(|column| *column == wanted)?;
                row.0.get(at)?.as_deref()
            };
            let content = cell("content").and_then(|text| text.parse::<ContentDigest>().ok());
            let bytes = cell("bytes").and_then(|text| text.parse().ok());
            self.contents.extend(content.zip(bytes));
        }
    }

    fn add(&mut self, place: String) {
        Self::add(self, place);
    }
}

/// Reads every row of a database, and compares what repeats other rows. Servers may use it meanwhile. Blocks.
pub fn check_database(url: &Secret) -> Result<StoreCheck, TransferError> {
    let connections = connections(url)?;
    let tables: Vec<TransferTable> = TABLES.iter().map(|table| table.table).collect();
    let mut report = StoreCheck::default();
    Snapshot::take(&connections, LayoutUse::Read)?.check(&tables, &mut report)?;
    Ok(report)
}

/// The number of the directory that the nodes share; `None`: no node has made its beacon yet. Blocks.
pub fn shared_dir_beacon(url: &Secret) -> Result<Option<String>, TransferError> {
    let connections = connections(url)?;
    Ok(Snapshot::take(&connections, LayoutUse::Read)?.setting(BEACON_SETTING)?)
}
