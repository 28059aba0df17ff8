//! Marks of transactions, by which a node finds out whether a commit took effect whose reply was lost.

use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lanes of a node. Transactions that run at the same time mark different rows: one for each writer.
pub(crate) const LANES: i32 = 8;

/// The lanes of this node that no transaction uses, and the last number.
#[derive(Debug)]
pub(crate) struct CommitMarks {
    free: Mutex<Vec<i32>>,
    last: AtomicI64,
}

/// The mark of one transaction; no other has its number. Gives its lane back when it is dropped.
#[derive(Debug)]
pub(crate) struct CommitMark<'m> {
    marks: &'m CommitMarks,
    pub(crate) lane: i32,
    pub(crate) number: i64,
}

impl Default for CommitMarks {
    fn default() -> Self {
        Self { free: Mutex::new((0..LANES).collect()), last: AtomicI64::new(0) }
    }
}

impl CommitMarks {
    /// A mark for the next transaction.
    pub(crate) fn next(&self) -> Result<CommitMark<'_>, StoreError> {
        let lane = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let number = self.last.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        lane.map(|lane| CommitMark { marks: self, lane, number }).ok_or(StoreError::Busy)
    }
}

impl CommitMark<'_> {
    /// Whether the transaction was committed; `None` if nobody knows any more. Waits for its end: a
    /// connection that is lost here may still commit there.
    pub(crate) async fn is_committed(
        &self,
        session: &SqlSession<'_>,
        node: i64,
    ) -> Result<Option<bool>, StoreError> {
        let sql = "SELECT number FROM commit_marks WHERE node = $1 AND lane = $2 FOR NO KEY UPDATE";
        let row = session.row(sql, &[&node, &self.lane]).await?;
        row.map(|row| Ok(row.column::<i64>(0)? == self.number)).transpose()
    }
}

impl Drop for CommitMark<'_> {
    fn drop(&mut self) {
        self.marks.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.lane);
    }
}
