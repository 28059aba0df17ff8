//! Counts events of all nodes in windows of time, to throttle logins and requests. A window begins with its
//! first event; later events do not extend it.

use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, Params, SqlSession, sql_number};
use crate::store::postgres::store::PostgresStore;
use sha2::{Digest, Sha256};

/// How many events an owner may have in a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWindow<'a> {
    /// What is counted, such as `login`.
    pub name: &'a str,
    /// Whose events are counted: a user, or an address.
    pub owner: &'a str,
    /// Length of the window, milliseconds.
    pub window_ms: u64,
    /// Maximum events in the window.
    pub limit: u64,
}

/// Maximum expired windows that one event removes.
const REMOVED: i64 = 32;

/// Maximum owner that is stored as it is, bytes; of longer ones, the digest is stored.
const OWNER_BYTES: usize = 128;

impl PostgresStore {
    /// Counts an event, unless the window has `limit` of them already. Returns the rest of a full window,
    /// milliseconds; `None` if the event was counted. Blocks.
    pub fn count_in_window(&self, window: &RateWindow<'_>, now_ms: u64) -> Result<Option<u64>, StoreError> {
        self.read(async |session: &SqlSession<'_>| count(session, window, now_ms).await)
    }
}

async fn count(
    session: &SqlSession<'_>,
    window: &RateWindow<'_>,
    now_ms: u64,
) -> Result<Option<u64>, StoreError> {
    // A full window is only read. Events of several nodes at once may all find room: the update counts them.
    let sql = "WITH full_window AS (SELECT until_ms FROM windows \
                   WHERE name = $1 AND owner = $2 AND until_ms > $3 AND count >= $5), \
               expired AS (DELETE FROM windows WHERE (name, owner) IN (SELECT name, owner FROM windows \
                   WHERE until_ms <= $3 AND (name, owner) <> ($1, $2) ORDER BY until_ms LIMIT $6 FOR UPDATE SKIP LOCKED)), \
               counted AS (INSERT INTO windows AS w (name, owner, until_ms, count) \
                   SELECT $1, $2, $4::bigint, 1 WHERE NOT EXISTS (SELECT FROM full_window) \
                   ON CONFLICT (name, owner) DO UPDATE SET \
                   until_ms = CASE WHEN w.until_ms > $3 THEN w.until_ms ELSE excluded.until_ms END, \
                   count = CASE WHEN w.until_ms > $3 THEN least(w.count, $5) + 1 ELSE 1 END \
                   RETURNING until_ms, count) \
               SELECT until_ms FROM full_window UNION ALL SELECT until_ms FROM counted WHERE count > $5";
    let params: Params<'_> = &[
        &window.name,
        &stored_owner(window.owner),
        &sql_number(now_ms),
        &sql_number(now_ms.saturating_add(window.window_ms)),
        // One more must fit.
        &sql_number(window.limit).min(i64::MAX.saturating_sub(1)),
        &REMOVED,
    ];
    let full = session.row(sql, params).await?;
    full.map(|row| Ok(row.number(0)?.saturating_sub(now_ms))).transpose()
}

/// The owner as the table has it. Names that clients choose may be long, or contain U+0000.
fn stored_owner(owner: &str) -> String {
    if owner.len() <= OWNER_BYTES && !owner.contains('\0') {
        return owner.to_owned();
    }
    let digest = Sha256::digest(owner);
    digest.iter().fold("sha256 ".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}
