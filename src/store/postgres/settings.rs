//! Settings that all nodes share, such as the key of sessions.

use crate::ports::StoreError;
use crate::store::postgres::session::{Columns, SqlSession};
use crate::store::postgres::store::PostgresStore;

impl PostgresStore {
    /// The value of a setting. The first node that asks stores its own value, which all others get. Blocks.
    pub fn setting_or_insert(&self, key: &str, value: &str) -> Result<String, StoreError> {
        self.read(async |session: &SqlSession<'_>| {
            // The update changes nothing: it waits for the other node's commit and returns that node's value.
            let sql = "INSERT INTO settings AS s (key, value) VALUES ($1, $2) \
                       ON CONFLICT (key) DO UPDATE SET value = s.value RETURNING value";
            session.one(sql, &[&key, &value]).await?.column(0)
        })
    }
}
