//! The port [`RateWindows`] in a table: all nodes count together.

use crate::domain::hex::hex;
use crate::ports::{CountedEvents, RateWindow, RateWindows, StoreError};
use crate::store::postgres::session::{Columns, Params, SqlSession, sql_number};
use crate::store::postgres::store::PostgresStore;
use sha2::{Digest, Sha256};

/// Maximum expired windows that one event removes.
const REMOVED: i64 = 32;

/// Maximum owner that is stored as it is, bytes; of longer ones, the digest is stored.
const OWNER_BYTES: usize = 128;

impl RateWindows for PostgresStore {
    fn count(&self, window: &RateWindow<'_>, events: u64) -> Result<CountedEvents, StoreError> {
        let now_ms = self.shared.now_ms();
        self.read(async |session: &SqlSession<'_>| count(session, window, events, now_ms).await)
    }

    fn uncount(&self, window: &RateWindow<'_>) -> Result<(), StoreError> {
        let sql = "UPDATE windows SET count = least(count, $4) - 1 \
                   WHERE name = $1 AND owner = $2 AND until_ms > $3 AND count > 0";
        let (owner, now_ms) = (stored_owner(window.owner), sql_number(self.shared.now_ms()));
        self.read(async |session: &SqlSession<'_>| {
            let params: Params<'_> = &[&window.name, &owner, &now_ms, &sql_limit(window)];
            session.execute(sql, params).await.map(drop)
        })
    }

    fn forget(&self, window: &RateWindow<'_>) -> Result<(), StoreError> {
        let (sql, owner) = ("DELETE FROM windows WHERE name = $1 AND owner = $2", stored_owner(window.owner));
        self.read(async |session: &SqlSession<'_>| {
            session.execute(sql, &[&window.name, &owner]).await.map(drop)
        })
    }

    fn is_open(&self, window: &RateWindow<'_>) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT FROM windows WHERE name = $1 AND owner = $2 AND until_ms > $3 AND count > 0)";
        let (owner, now_ms) = (stored_owner(window.owner), sql_number(self.shared.now_ms()));
        self.read(async |session: &SqlSession<'_>| {
            session.one(sql, &[&window.name, &owner, &now_ms]).await?.column(0)
        })
    }
}

async fn count(
    session: &SqlSession<'_>,
    window: &RateWindow<'_>,
    events: u64,
    now_ms: u64,
) -> Result<CountedEvents, StoreError> {
    // A full window is only read. Events of several nodes at once may all find room: the update counts them,
    // and the count may pass the limit by those that were not admitted.
    let sql = "WITH full_window AS (SELECT until_ms, $5::bigint AS before FROM windows \
                   WHERE name = $1 AND owner = $2 AND until_ms > $3 AND count >= $5), \
               expired AS (DELETE FROM windows WHERE (name, owner) IN (SELECT name, owner FROM windows \
                   WHERE until_ms <= $3 AND (name, owner) <> ($1, $2) ORDER BY until_ms LIMIT $6 FOR UPDATE SKIP LOCKED)), \
               counted AS (INSERT INTO windows AS w (name, owner, until_ms, count) \
                   SELECT $1, $2, $4::bigint, $7::bigint WHERE NOT EXISTS (SELECT FROM full_window) \
                   ON CONFLICT (name, owner) DO UPDATE SET \
                   until_ms = CASE WHEN w.until_ms > $3 THEN w.until_ms ELSE excluded.until_ms END, \
                   count = CASE WHEN w.until_ms > $3 THEN least(w.count, $5) ELSE 0 END + $7 \
                   RETURNING until_ms, count - $7 AS before) \
               SELECT until_ms, before FROM full_window UNION ALL SELECT until_ms, before FROM counted";
    // Their sum must fit.
    let events = sql_number(events).min(i64::MAX / 2);
    let params: Params<'_> = &[
        &window.name,
        &stored_owner(window.owner),
        &sql_number(now_ms),
        &sql_number(now_ms.saturating_add(window.window_ms)),
        &sql_limit(window),
        &REMOVED,
        &events,
    ];
    let row = session.one(sql, params).await?;
    let before = row.number(1)?;
    let counted = window.limit.saturating_sub(before).min(u64::try_from(events).unwrap_or_default());
    let left_ms = row.number(0)?.saturating_sub(now_ms);
    Ok(CountedEvents { counted, total: before.saturating_add(counted), left_ms })
}

fn sql_limit(window: &RateWindow<'_>) -> i64 {
    sql_number(window.limit).min(i64::MAX / 2)
}

/// The owner as the table has it. Names that clients choose may be long, or contain U+0000.
fn stored_owner(owner: &str) -> String {
    if owner.len() <= OWNER_BYTES && !owner.contains('\0') {
        return owner.to_owned();
    }
    format!("sha256 {}", hex(&Sha256::digest(owner)))
}
