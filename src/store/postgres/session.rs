//! Statements and values: what every act and every read of this store uses to talk to the database.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use deadpool_postgres::{Client, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Row, Statement};

/// The parameters of a statement.
pub(crate) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// A connection that an act or a read has for itself, inside a transaction or not.
pub(crate) struct SqlSession<'t> {
    connection: SessionConnection<'t>,
    /// What went wrong in the database, if anything did.
    fault: Mutex<Option<SqlFault>>,
}

enum SessionConnection<'t> {
    Client(&'t Client),
    Transaction(Transaction<'t>),
}

/// What a failed statement means for its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlFault {
    /// Another transaction was in the way; the same act may succeed the next time.
    Conflict,
    /// The connection is lost, or the server shuts down.
    Connection,
    /// The reply to a commit was lost, and nobody can say any more whether it took effect.
    InDoubt,
    /// The statement or the data is at fault.
    Statement,
}

impl SqlFault {
    /// What this error of the driver means.
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            // Only errors of the wire have no code; those of conversions do not come from the server.
            return if error.is_closed() || is_of_io(error) { Self::Connection } else { Self::Statement };
        };
        if [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
        ]
        .contains(code)
        {
            return Self::Conflict;
        }
        // Class 08: connection exceptions; 57P: the server stops or starts; 53: it lacks resources.
        let is_away = ["08", "57P", "53"].iter().any(|class| code.code().starts_with(class));
        // A standby that has not been promoted yet.
        let is_standby = *code == SqlState::READ_ONLY_SQL_TRANSACTION;
        if is_away || is_standby { Self::Connection } else { Self::Statement }
    }
}

fn is_of_io(error: &tokio_postgres::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The error of the store for an error of the driver.
pub(crate) fn failed(error: &tokio_postgres::Error) -> StoreError {
    match SqlFault::of(error) {
        SqlFault::Conflict => StoreError::Busy,
        SqlFault::Connection | SqlFault::InDoubt => StoreError::Unreachable,
        SqlFault::Statement => {
            let detail = error.as_db_error().map_or_else(
                || error.to_string(),
                |cause| format!("{} ({})", cause.message(), cause.code().code()),
            );
            tracing::error!(error = detail, "the database refused a statement");
            StoreError::Io(detail)
        }
    }
}

impl<'t> SqlSession<'t> {
    /// Statements of their own.
    pub(crate) fn of_client(client: &'t Client) -> Self {
        Self { connection: SessionConnection::Client(client), fault: Mutex::new(None) }
    }

    /// Statements of one transaction.
    pub(crate) fn of_transaction(transaction: Transaction<'t>) -> Self {
        Self { connection: SessionConnection::Transaction(transaction), fault: Mutex::new(None) }
    }

    /// The transaction, to end it.
    pub(crate) fn into_transaction(self) -> Option<Transaction<'t>> {
        match self.connection {
            SessionConnection::Transaction(transaction) => Some(transaction),
            SessionConnection::Client(_) => None,
        }
    }

    /// What went wrong in the database so far.
    pub(crate) fn fault(&self) -> Option<SqlFault> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that a statement returns.
    pub(crate) async fn rows(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let found = async {
            let statement = self.prepare(sql).await?;
            match &self.connection {
                SessionConnection::Client(client) => client.query(&statement, params).await,
                SessionConnection::Transaction(transaction) => transaction.query(&statement, params).await,
            }
        };
        found.await.map_err(|error| self.note(&error))
    }

    /// The first row that a statement returns, if it returns any.
    pub(crate) async fn row(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// The row of a statement that returns one.
    pub(crate) async fn one(&self, sql: &str, params: Params<'_>) -> Result<Row, StoreError> {
        let row = self.row(sql, params).await?;
        row.ok_or_else(|| StoreError::Corrupt("a statement that returns one row returned none".to_owned()))
    }

    /// Runs a statement. Returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        let changed = async {
            let statement = self.prepare(sql).await?;
            match &self.connection {
                SessionConnection::Client(client) => client.execute(&statement, params).await,
                SessionConnection::Transaction(transaction) => transaction.execute(&statement, params).await,
            }
        };
        changed.await.map_err(|error| self.note(&error))
    }

    async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        match &self.connection {
            SessionConnection::Client(client) => client.prepare_cached(sql).await,
            SessionConnection::Transaction(transaction) => transaction.prepare_cached(sql).await,
        }
    }

    fn note(&self, error: &tokio_postgres::Error) -> StoreError {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(SqlFault::of(error));
        failed(error)
    }
}

/// A number as the database keeps it. Numbers above `i64::MAX` become that.
pub(crate) fn sql_number(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// The user's number.
pub(crate) fn sql_user(user: UserId) -> i64 {
    sql_number(user.0)
}

/// A document as the text of its JSON.
pub(crate) fn document(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Reads a document from the text of its JSON.
pub(crate) fn read_document<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Typed columns of a row.
pub(crate) trait Columns {
    /// A column of this type.
    fn column<'r, T: FromSql<'r>>(&'r self, index: usize) -> Result<T, StoreError>;

    /// A number that is not negative.
    fn number(&self, index: usize) -> Result<u64, StoreError> {
        self.column::<i64>(index).map(unsigned)
    }

    /// A number that may be missing.
    fn optional_number(&self, index: usize) -> Result<Option<u64>, StoreError> {
        Ok(self.column::<Option<i64>>(index)?.map(unsigned))
    }

    /// A user.
    fn user(&self, index: usize) -> Result<UserId, StoreError> {
        let number = self.number(index)?;
        u32::try_from(number).map(UserId).map_err(|_| StoreError::Corrupt(format!("{number} is no user")))
    }

    /// A value that is kept as its text, such as an id.
    fn parsed<T: std::str::FromStr>(&self, index: usize) -> Result<T, StoreError> {
        let text: &str = self.column(index)?;
        text.parse().map_err(|_| StoreError::Corrupt(format!("'{text}' is not of its kind")))
    }

    /// A document, selected as text.
    fn document<T: DeserializeOwned>(&self, index: usize) -> Result<T, StoreError> {
        read_document(self.column(index)?)
    }
}

impl Columns for Row {
    fn column<'r, T: FromSql<'r>>(&'r self, index: usize) -> Result<T, StoreError> {
        self.try_get(index).map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
