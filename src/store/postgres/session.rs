//! Statements and values: what every act and every read of this store uses to talk to the database.

use crate::domain::id::UserId;
use crate::ports::StoreError;
use crate::store::postgres::encoded_param::EncodedParam;
use crate::store::postgres::param_types::with_types;
use deadpool_postgres::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Row, Statement};

/// The parameters of a statement.
pub(crate) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// A connection that an act or a read has for itself, inside a transaction or not. Statements run in the
/// order of their calls. A transaction that is not committed is rolled back.
pub(crate) struct SqlSession<'t> {
    client: &'t Client,
    is_transaction: bool,
    /// Whether statements are prepared once for each connection.
    is_prepared: bool,
    state: Mutex<SessionState<'t>>,
}

#[derive(Default)]
struct SessionState<'t> {
    /// What went wrong in the database, if anything did.
    fault: Option<SqlFault>,
    /// Replies to statements that were sent without waiting, the oldest first.
    replies: Vec<Reply<'t>>,
    /// Whether the server has a transaction open, or will have.
    is_open: bool,
}

type Reply<'t> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send + 't>>;

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
        // Class 08: connection exceptions; 57P: the server stops or starts; 53: it lacks resources; 25P03:
        // the transaction was idle for too long, because this node was stopped.
        let is_away = ["08", "57P", "53", "25P03"].iter().any(|class| code.code().starts_with(class));
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
            // Class 23: a row contradicts another.
            let is_contradiction = error.code().is_some_and(|code| code.code().starts_with("23"));
            if is_contradiction { StoreError::Corrupt(detail) } else { StoreError::Io(detail) }
        }
    }
}

impl<'t> SqlSession<'t> {
    /// Statements of their own.
    pub(crate) fn of_client(client: &'t Client, is_prepared: bool) -> Self {
        Self { client, is_transaction: false, is_prepared, state: Mutex::default() }
    }

    /// Statements of one transaction, which has begun. Inside it, a statement waits for the locks of others
    /// up to `lock_timeout_ms`; 0: as long as it takes.
    ///
    /// This waits for the reply: a beginning fails if the database ends it (`statement_timeout`, an operator
    /// who cancels it), and statements that were sent behind it would run outside of a transaction, and stay.
    pub(crate) async fn begin(
        client: &'t Client,
        is_prepared: bool,
        lock_timeout_ms: u64,
    ) -> Result<Self, tokio_postgres::Error> {
        let session = Self { client, is_transaction: true, is_prepared, state: Mutex::default() };
        session.state().is_open = true;
        let begin = match lock_timeout_ms {
            0 => "BEGIN".to_owned(),
            _ => format!("BEGIN; SET LOCAL lock_timeout = {lock_timeout_ms}"),
        };
        if let Err(error) = client.batch_execute(&begin).await {
            session.rollback().await;
            return Err(error);
        }
        Ok(session)
    }

    /// Commits the transaction.
    pub(crate) async fn commit(&self) -> Result<(), tokio_postgres::Error> {
        self.state().is_open = false;
        self.client.batch_execute("COMMIT").await
    }

    /// Rolls the transaction back.
    pub(crate) async fn rollback(&self) {
        self.state().is_open = false;
        if let Err(error) = self.client.batch_execute("ROLLBACK").await {
            // Then the connection is lost, and the transaction with it.
            tracing::debug!(%error, "cannot roll a transaction back");
        }
    }

    /// What went wrong in the database so far.
    pub(crate) fn fault(&self) -> Option<SqlFault> {
        self.state().fault
    }

    /// The rows that a statement returns.
    pub(crate) async fn rows(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        if !self.is_prepared {
            return self.in_turn(self.client.query_typed(sql, &with_types(params))).await;
        }
        let statement = self.statement(sql).await?;
        self.in_turn(self.client.query(&statement, params)).await
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
        if !self.is_prepared {
            return self.in_turn(self.client.execute_typed(sql, &with_types(params))).await;
        }
        let statement = self.statement(sql).await?;
        self.in_turn(self.client.execute(&statement, params)).await
    }

    /// Runs statements without parameters, separated by semicolons.
    pub(crate) async fn batch(&self, statements: &str) -> Result<(), StoreError> {
        self.in_turn(self.client.batch_execute(statements)).await
    }

    /// Runs a statement whose result does not matter. Inside a transaction it is sent without waiting for its
    /// reply: if it fails, the next statement that waits fails with its error.
    pub(crate) async fn send(&self, sql: &str, params: Params<'_>) -> Result<(), StoreError> {
        if !self.is_transaction {
            return self.execute(sql, params).await.map(|_| ());
        }
        if !self.is_prepared {
            let types: Vec<Type> = with_types(params).into_iter().map(|(_, of)| of).collect();
            let params = EncodedParam::encode(&types, params)?;
            self.queue(Box::pin(execute_unprepared(self.client, sql.to_owned(), params, types))).await;
            return Ok(());
        }
        let statement = self.statement(sql).await?;
        let params = EncodedParam::encode(statement.params(), params)?;
        let reply = execute_encoded(self.client, statement, params);
        self.queue(Box::pin(reply)).await;
        Ok(())
    }

    /// The statement, prepared once for each connection.
    async fn statement(&self, sql: &str) -> Result<Statement, StoreError> {
        let mut preparing = pin!(self.client.prepare_cached(sql));
        match poll_once(preparing.as_mut()).await {
            // It was prepared before: there is no reply to wait for.
            Poll::Ready(Ok(statement)) => Ok(statement),
            Poll::Ready(Err(error)) => self.in_turn(ready(Err(error))).await,
            Poll::Pending => self.in_turn(preparing).await,
        }
    }

    /// Sends a request, and waits for its reply after those of all requests before it. The connection passes
    /// no reply on while one before it is not taken. Fails with the error of the first that failed: later
    /// ones only follow from it.
    async fn in_turn<T>(
        &self,
        reply: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let mut reply = pin!(reply);
        // The first poll sends the request.
        let early = poll_once(reply.as_mut()).await;
        self.settle().await?;
        let outcome = match early {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => reply.await,
        };
        outcome.map_err(|error| self.note(&error))
    }

    /// Waits for the replies to all statements that were sent. Fails with the error of the first that failed.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let replies = std::mem::take(&mut self.state().replies);
        let mut failed = None;
        for reply in replies {
            if let Err(error) = reply.await {
                failed.get_or_insert(error);
            }
        }
        match failed {
            Some(error) => Err(self.note(&error)),
            None => Ok(()),
        }
    }

    /// Hands a request to the connection, which is done by the first poll, and keeps its reply for later.
    async fn queue(&self, mut reply: Reply<'t>) {
        let reply = match poll_once(reply.as_mut()).await {
            Poll::Pending => reply,
            Poll::Ready(outcome) => Box::pin(ready(outcome)),
        };
        self.state().replies.push(reply);
    }

    fn state(&self) -> MutexGuard<'_, SessionState<'t>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: &tokio_postgres::Error) -> StoreError {
        self.state().fault.get_or_insert(SqlFault::of(error));
        failed(error)
    }
}

/// What a future has to say now.
async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

async fn execute_unprepared(
    client: &Client,
    sql: String,
    params: Vec<EncodedParam>,
    types: Vec<Type>,
) -> Result<(), tokio_postgres::Error> {
    let params: Vec<(&(dyn ToSql + Sync), Type)> = params.iter().map(|param| param as _).zip(types).collect();
    client.execute_typed(&sql, &params).await.map(|_| ())
}

async fn execute_encoded(
    client: &Client,
    statement: Statement,
    params: Vec<EncodedParam>,
) -> Result<(), tokio_postgres::Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
    client.execute(&statement, &params).await.map(|_| ())
}

impl Drop for SqlSession<'_> {
    fn drop(&mut self) {
        if self.state().is_open {
            // A panic, or a transaction that nobody ends. The first poll hands the request to the connection,
            // before those of its next user.
            let mut rollback = pin!(self.client.batch_execute("ROLLBACK"));
            drop(rollback.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
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
