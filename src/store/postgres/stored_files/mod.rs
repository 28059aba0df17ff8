//! The port [`StoredFiles`] on the store, and its reads. Contents are kept outside of it.

use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};
use crate::ports::{StoreError, StoredFileError, StoredFilePage, StoredFileQuery, StoredFiles, Ticket};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::write::WriteOptions;
use crate::store::rows::file_totals::FileTotals;

pub(crate) mod images;
pub(crate) mod write;

pub(crate) use images::ImageHolder;

impl StoredFiles for PostgresStore {
    fn add_file(&self, file: StoredFile) -> Ticket<StoredFile, StoredFileError> {
        self.write(async move |act: &mut Act<'_>| act.add_file(&file).await)
    }

    fn delete_file(&self, user: UserId, id: FileId) -> Ticket<Option<StoredFile>> {
        self.write(async move |act: &mut Act<'_>| act.delete_file(user, id).await)
    }

    fn unused_contents(&self, contents: Vec<ContentDigest>) -> Ticket<Vec<ContentDigest>> {
        // Writes that are queued or under way may name a content. Those of jobs are in one queue with the
        // read below.
        if let Err(error) = self.wait_for_other_writes() {
            return Ticket::resolved(Err(error));
        }
        self.push(WriteOptions::default(), async move |act: &mut Act<'_>| {
            act.unused_contents(&contents).await
        })
    }

    fn check_room(&self, user: UserId, bytes: u64) -> Result<(), StoredFileError> {
        if let Some(low) = self.shared.low_disk(bytes) {
            return Err(low.into());
        }
        let totals = self.read(async |session: &SqlSession<'_>| totals(session, user).await)?;
        totals.admit(bytes, &self.shared.limits)
    }

    fn file(&self, user: UserId, id: FileId) -> Result<Option<StoredFile>, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            let sql = "SELECT file::text FROM files WHERE user_id = $1 AND id = $2";
            let found = session.row(sql, &[&sql_user(user), &id.to_string()]).await?;
            found.map(|row| row.document(0)).transpose()
        })
    }

    fn files(&self, query: &StoredFileQuery) -> Result<StoredFilePage, StoreError> {
        self.read(async |session: &SqlSession<'_>| page(session, query).await)
    }
}

/// The files and images of a user together.
pub(crate) async fn totals(session: &SqlSession<'_>, user: UserId) -> Result<FileTotals, StoreError> {
    let sql = "SELECT files, bytes, image_bytes FROM file_totals WHERE user_id = $1";
    let Some(row) = session.row(sql, &[&sql_user(user)]).await? else { return Ok(FileTotals::default()) };
    Ok(FileTotals { files: row.number(0)?, bytes: row.number(1)?, image_bytes: row.number(2)? })
}

async fn page(session: &SqlSession<'_>, query: &StoredFileQuery) -> Result<StoredFilePage, StoreError> {
    let StoredFileQuery { user, purpose, after, is_newest_first, limit } = *query;
    let (is_behind, order) = if is_newest_first { ("<", "DESC") } else { (">", "ASC") };
    let sql = format!(
        "SELECT file::text FROM files WHERE user_id = $1 AND ($2::text IS NULL OR id {is_behind} $2) \
         AND ($3::text IS NULL OR purpose = $3) ORDER BY id {order} LIMIT $4"
    );
    let (after, purpose) = (after.map(|id| id.to_string()), purpose.map(FilePurpose::as_str));
    let wanted = sql_number(limit.saturating_add(1));
    let rows = session.rows(&sql, &[&sql_user(user), &after, &purpose, &wanted]).await?;
    let files: Vec<StoredFile> =
        rows.iter().take(limit).map(|row| row.document(0)).collect::<Result<_, _>>()?;
    Ok(StoredFilePage { has_more: rows.len() > limit, files })
}
