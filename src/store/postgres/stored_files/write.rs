//! Writes files: each statement changes the row together with the totals of its owner.

use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{ContentDigest, StoredFile};
use crate::ports::{NewWork, StoreError, StoredFileError};
use crate::store::postgres::session::{Columns, document, read_document, sql_number, sql_user};
use crate::store::postgres::stored_files::totals;
use crate::store::postgres::writer::act::Act;

/// Expired files that one transaction removes.
const SWEEP_FILES: usize = 200;

/// The limits of a user's files.
#[derive(Debug, Clone, Copy)]
struct FileLimits {
    files: i64,
    bytes: i64,
}

/// For files that no limit refuses.
const NO_LIMITS: FileLimits = FileLimits { files: i64::MAX, bytes: i64::MAX };

impl Act<'_> {
    /// Stores a new file.
    pub(crate) async fn add_file(&mut self, file: &StoredFile) -> Result<StoredFile, StoredFileError> {
        self.refuse_low_disk()?;
        let work = NewWork { jobs: 0, bytes: file.bytes };
        self.admit_work::<StoredFileError>(file.user, work).await?;
        let limits = FileLimits {
            files: sql_number(self.limits.user_files),
            bytes: sql_number(self.limits.user_files_bytes),
        };
        if let Some(stored) = self.insert_file(file, limits).await? {
            return Ok(stored);
        }
        totals(&self.session, file.user).await?.admit(file.bytes, &self.limits)?;
        // Another file went meanwhile.
        Err(StoreError::Busy.into())
    }

    /// Stores a new file that the server itself made; no limit refuses it.
    pub(crate) async fn put_file(&mut self, file: &StoredFile) -> Result<StoredFile, StoreError> {
        let stored = self.insert_file(file, NO_LIMITS).await?;
        stored.ok_or_else(|| StoreError::Corrupt(format!("{} exceeds every limit", file.id)))
    }

    /// Inserts a file and counts it, unless it exceeds a limit.
    async fn insert_file(
        &mut self,
        file: &StoredFile,
        limits: FileLimits,
    ) -> Result<Option<StoredFile>, StoreError> {
        let at_most_ms = self.limits.files_ms.map(|age_ms| file.created_at_ms.saturating_add(age_ms));
        let expires_at_ms = file.expires_at_ms.into_iter().chain(at_most_ms).min();
        let file = StoredFile { expires_at_ms, ..file.clone() };
        let text = document(&file)?;
        let sql = "WITH counted AS (INSERT INTO file_totals AS t (user_id, files, bytes) \
                     SELECT $1, 1, $4 WHERE $9::bigint >= 1 AND $4 <= $10::bigint \
                     ON CONFLICT (user_id) DO UPDATE SET files = t.files + 1, bytes = t.bytes + $4 \
                     WHERE t.files < $9 AND t.bytes <= $10 - $4 RETURNING user_id) \
                   INSERT INTO files (user_id, id, purpose, bytes, content, created_at_ms, expires_at_ms, file) \
                   SELECT $1, $2, $3, $4, $5, $6, $7, $8::text::json FROM counted";
        let inserted = self
            .session
            .execute(
                sql,
                &[
                    &sql_user(file.user),
                    &file.id.to_string(),
                    &file.purpose.as_str(),
                    &sql_number(file.bytes),
                    &file.content.to_string(),
                    &sql_number(file.created_at_ms),
                    &file.expires_at_ms.map(sql_number),
                    &text,
                    &limits.files,
                    &limits.bytes,
                ],
            )
            .await?;
        if inserted == 0 {
            return Ok(None);
        }
        self.count_bytes(file.user, sql_number(text.len()));
        Ok(Some(file))
    }

    /// Deletes a file, if the user has it.
    pub(crate) async fn delete_file(
        &mut self,
        user: UserId,
        id: FileId,
    ) -> Result<Option<StoredFile>, StoreError> {
        let sql = "WITH gone AS (DELETE FROM files WHERE user_id = $1 AND id = $2 RETURNING bytes, file), \
                   counted AS (UPDATE file_totals SET files = greatest(files - 1, 0), \
                     bytes = greatest(file_totals.bytes - gone.bytes, 0) FROM gone WHERE user_id = $1) \
                   SELECT file::text FROM gone";
        let Some(found) = self.session.row(sql, &[&sql_user(user), &id.to_string()]).await? else {
            return Ok(None);
        };
        let text: &str = found.column(0)?;
        self.count_bytes(user, sql_number(text.len()).saturating_neg());
        read_document(text).map(Some)
    }

    /// Those of the contents that no file and no image has.
    pub(crate) async fn unused_contents(
        &mut self,
        contents: &[ContentDigest],
    ) -> Result<Vec<ContentDigest>, StoreError> {
        let sql = "SELECT c.content FROM unnest($1::text[]) WITH ORDINALITY AS c(content, place) \
                   WHERE NOT EXISTS (SELECT FROM files WHERE files.content = c.content) \
                   AND NOT EXISTS (SELECT FROM images WHERE images.content = c.content) ORDER BY c.place";
        let contents: Vec<String> = contents.iter().map(ToString::to_string).collect();
        let rows = self.session.rows(sql, &[&contents]).await?;
        rows.iter().map(|row| row.parsed(0)).collect()
    }

    /// Removes some files that have expired. Returns whether there may be more.
    pub(crate) async fn forget_expired_files(&mut self, now_ms: u64) -> Result<bool, StoreError> {
        let sql = "WITH due AS (SELECT user_id, id FROM files WHERE expires_at_ms < $1 \
                     ORDER BY expires_at_ms LIMIT $2 FOR UPDATE SKIP LOCKED), \
                   gone AS (DELETE FROM files USING due WHERE files.user_id = due.user_id AND files.id = due.id \
                     RETURNING files.user_id, files.bytes, octet_length(files.file::text) AS row_bytes), \
                   sums AS (SELECT user_id, count(*) AS files, sum(bytes)::bigint AS bytes, \
                     sum(row_bytes)::bigint AS row_bytes FROM gone GROUP BY user_id ORDER BY user_id), \
                   counted AS (UPDATE file_totals SET files = greatest(file_totals.files - sums.files, 0), \
                     bytes = greatest(file_totals.bytes - sums.bytes, 0) FROM sums \
                     WHERE file_totals.user_id = sums.user_id) \
                   SELECT user_id, files, row_bytes FROM sums";
        let rows = self.session.rows(sql, &[&sql_number(now_ms), &sql_number(SWEEP_FILES)]).await?;
        let mut removed = 0_u64;
        for row in &rows {
            removed = removed.saturating_add(row.number(1)?);
            self.count_bytes(row.user(0)?, row.column::<i64>(2)?.saturating_neg());
        }
        Ok(removed >= u64::try_from(SWEEP_FILES).unwrap_or(u64::MAX))
    }
}
