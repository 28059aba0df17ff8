//! Reads committed jobs, lists and logs. Each read is one statement where it can be: it sees one state.

use crate::domain::event::{EngineMark, Record, SequencedEvent};
use crate::domain::handle::ResultHandle;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobSpec};
use crate::domain::job_filter::JobFilter;
use crate::ports::{EventPage, JobPage, JobQuery, Results, StoreError};
use crate::store::postgres::jobs::row::{ROW, SHOWN, find, read_link, read_row, read_shown};
use crate::store::postgres::session::{Columns, SqlSession, sql_number, sql_user};
use crate::store::postgres::store::PostgresStore;
use crate::store::rows::page::{JoinedDeltas, PAGE_BYTES};

/// The job, if it is this user's, with what it waits for now.
pub(crate) async fn job(
    session: &SqlSession<'_>,
    (user, job): (UserId, JobId),
    now_ms: u64,
) -> Result<Option<Job>, StoreError> {
    let sql = format!("SELECT {SHOWN} FROM jobs WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2");
    let found = session.row(&sql, &[&job.to_string(), &sql_user(user)]).await?;
    found.map(|row| read_shown(&row, 0, now_ms)).transpose()
}

/// The answer of an ended job.
pub(crate) async fn output(session: &SqlSession<'_>, job: JobId) -> Result<Option<String>, StoreError> {
    let sql = format!("SELECT {ROW}, output::text FROM jobs WHERE id = $1");
    let Some(found) = session.row(&sql, &[&job.to_string()]).await? else { return Ok(None) };
    if found.column::<Option<&str>>(6)?.is_some() {
        return found.document(6).map(Some);
    }
    let row = read_row(&found, 0)?;
    if row.job.status.is_terminal() && row.has_output {
        return Err(StoreError::Corrupt(format!("{job} has no output")));
    }
    Ok(row.job.status.is_terminal().then(String::new))
}

/// The request of a job, if it is this user's.
pub(crate) async fn request(
    session: &SqlSession<'_>,
    user: UserId,
    job: JobId,
) -> Result<Option<JobSpec>, StoreError> {
    let sql = "SELECT spec::text FROM jobs WHERE id = $1 AND user_id IS NOT DISTINCT FROM $2";
    let found = session.row(sql, &[&job.to_string(), &sql_user(user)]).await?;
    found.map(|row| row.document(0)).transpose()
}

/// A user's jobs, newest first.
pub(crate) async fn jobs(
    session: &SqlSession<'_>,
    query: &JobQuery,
    now_ms: u64,
) -> Result<JobPage, StoreError> {
    if query.filter != JobFilter::NONE {
        return filtered(session, query, now_ms).await;
    }
    let sql = format!(
        "SELECT {SHOWN} FROM jobs WHERE user_id = $1 AND accept < $2 {} ORDER BY accept DESC LIMIT $3",
        of_status(query)
    );
    let limit = sql_number(query.limit.saturating_add(1));
    let found = session.rows(&sql, &[&sql_user(query.user), &before(query), &limit]).await?;
    let has_more = found.len() > query.limit;
    let (mut jobs, mut next) = (Vec::with_capacity(found.len()), None);
    for row in found.iter().take(query.limit) {
        jobs.push(read_shown(row, 0, now_ms)?);
        next = Some(row.number(1)?).filter(|_| has_more);
    }
    Ok(JobPage { jobs, next })
}

fn before(query: &JobQuery) -> i64 {
    query.before.map_or(i64::MAX, sql_number)
}

/// The condition on the state, if there is one: written out, because the index on it is used only then.
fn of_status(query: &JobQuery) -> String {
    query.status.map(|status| format!("AND status = '{}'", status.as_str())).unwrap_or_default()
}

/// Maximum rows that one page reads.
const SCAN: usize = 1_000;

/// A page of the jobs that pass the filter, newest first. It is short when the scan limit is reached first;
/// `next` continues there.
async fn filtered(session: &SqlSession<'_>, query: &JobQuery, now_ms: u64) -> Result<JobPage, StoreError> {
    let filter = &query.filter;
    // A background job is newer than its parent. Without its parent, the scan has no lower end.
    let parent = match filter.parent {
        Some(parent) => find(session, parent).await?,
        None => None,
    };
    let since = parent.map_or(0, |row| row.first_accept.unwrap_or(row.accept));
    // No text of the database holds U+0000, so such a model is compared here.
    let model = filter.model.as_ref().filter(|model| !model.contains('\0'));
    let is_decided_by_columns =
        filter.label.is_none() && filter.schedule.is_none() && model == filter.model.as_ref();
    let matches = if is_decided_by_columns { query.limit.min(SCAN) } else { SCAN };
    let sql = format!(
        "SELECT w.accept, s.* FROM (SELECT *, count(*) FILTER (WHERE is_match) OVER (ORDER BY accept DESC) AS nth \
           FROM (SELECT id, accept, ($5::text IS NULL OR parent = $5) AND ($6::text IS NULL OR batch = $6) \
             AND ($7::text IS NULL OR conversation = $7) AND ($8::text IS NULL OR model = $8) \
             AND ($9::bigint IS NULL OR created_at_ms >= $9) AND ($10::bigint IS NULL OR created_at_ms < $10) \
             AS is_match FROM jobs WHERE user_id = $1 AND accept < $2 AND accept > $3 {} \
             ORDER BY accept DESC LIMIT $4) AS scanned) AS w \
         LEFT JOIN LATERAL (SELECT {SHOWN} FROM jobs WHERE w.is_match AND w.nth <= $11 AND jobs.id = w.id) AS s ON true \
         ORDER BY w.accept DESC",
        of_status(query)
    );
    let found = session
        .rows(
            &sql,
            &[
                &sql_user(query.user),
                &before(query),
                &sql_number(since),
                &sql_number(SCAN.saturating_add(1)),
                &filter.parent.map(|parent| parent.to_string()),
                &filter.batch.map(|batch| batch.to_string()),
                &filter.conversation.as_ref().map(ToString::to_string),
                &model,
                &filter.created_from_ms.map(sql_number),
                &filter.created_before_ms.map(sql_number),
                &sql_number(matches),
            ],
        )
        .await?;
    let (mut jobs, mut last) = (Vec::new(), None);
    for row in found.iter().take(SCAN) {
        if jobs.len() >= query.limit {
            return Ok(JobPage { jobs, next: last });
        }
        last = Some(row.number(0)?);
        if row.column::<Option<&str>>(1)?.is_some() {
            let job = read_shown(row, 1, now_ms)?;
            jobs.extend(Some(job).filter(|job| filter.matches(job)));
        }
    }
    Ok(JobPage { jobs, next: last.filter(|_| found.len() > SCAN) })
}

/// The newest event of a log.
pub(crate) async fn last_seq(session: &SqlSession<'_>, job: JobId) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM records WHERE job = $1";
    session.one(sql, &[&job.to_string()]).await?.number(0)
}

/// Events after the cursor.
pub(crate) async fn events(
    session: &SqlSession<'_>,
    job: JobId,
    after: u64,
    max: usize,
) -> Result<EventPage, StoreError> {
    let sql = "SELECT l.last, e.seq, e.body, e.link FROM (SELECT coalesce(max(seq), 0) AS last FROM records WHERE job = $1) AS l \
               LEFT JOIN (SELECT seq, body::text AS body, link, \
                 sum(octet_length(body::text)) OVER (ORDER BY seq) - octet_length(body::text) AS before \
                 FROM records WHERE job = $1 AND seq > $2 AND sub = 0 ORDER BY seq LIMIT $3) AS e ON e.before < $4 \
               ORDER BY e.seq";
    let params = (job.to_string(), sql_number(after), sql_number(max), sql_number(PAGE_BYTES));
    let (mut events, mut bytes, mut last_seq) = (Vec::new(), 0_usize, 0);
    for row in session.rows(sql, &[&params.0, &params.1, &params.2, &params.3]).await? {
        last_seq = row.number(0)?;
        let (Some(seq), Some(body)) = (row.optional_number(1)?, row.column::<Option<&str>>(2)?) else {
            continue;
        };
        bytes = bytes.saturating_add(body.len());
        events.push(SequencedEvent::linked(seq, row.document(2)?, read_link(&row, 3)?));
    }
    let is_full = events.len() >= max || bytes >= PAGE_BYTES;
    refuse_lost_events(session, job, (after, Some(last_seq).filter(|_| !is_full)), &events).await?;
    Ok(EventPage { events, last_seq })
}

/// Fails if events are lost: those of a log begin after one number, end at the last one, if it is known, and
/// have no gap but those of retention.
async fn refuse_lost_events(
    session: &SqlSession<'_>,
    job: JobId,
    (after, last): (u64, Option<u64>),
    events: &[SequencedEvent],
) -> Result<(), StoreError> {
    let end = events.last().map_or(after, |event| event.seq);
    let seqs = std::iter::once(after).chain(events.iter().map(|event| event.seq));
    let has_gap = !seqs.is_sorted_by(|one, next| one.checked_add(1) == Some(*next));
    if last.is_some_and(|last| last > end) || (has_gap && is_complete(session, job).await?) {
        return Err(StoreError::Corrupt(format!("the log of {job} lacks events")));
    }
    Ok(())
}

/// Whether retention has left the log of this job alone.
async fn is_complete(session: &SqlSession<'_>, job: JobId) -> Result<bool, StoreError> {
    let sql = format!("SELECT {ROW}, retention = 0 FROM jobs WHERE id = $1");
    let Some(found) = session.row(&sql, &[&job.to_string()]).await? else { return Ok(false) };
    Ok(read_row(&found, 0)?.retried_at_ms.is_none() && found.column(6)?)
}

/// The text of the step that begins at `first_seq`.
pub(crate) async fn step_text(
    session: &SqlSession<'_>,
    job: JobId,
    first_seq: u64,
    up_to: u64,
) -> Result<String, StoreError> {
    let sql =
        "SELECT body::text FROM records WHERE job = $1 AND seq BETWEEN $2 AND $3 AND sub = 0 ORDER BY seq";
    let params = (job.to_string(), sql_number(first_seq), sql_number(up_to.max(first_seq)));
    let mut step_text = JoinedDeltas::default();
    for row in session.rows(sql, &[&params.0, &params.1, &params.2]).await? {
        step_text.add(&row.document(0)?);
    }
    Ok(step_text.text)
}

/// The complete log, without the contents of full tool results: [`Results`] reads them.
pub(crate) async fn log(session: &SqlSession<'_>, job: JobId) -> Result<Vec<Record>, StoreError> {
    let sql = "SELECT sub, handle, CASE WHEN handle IS NULL THEN body::text END FROM records WHERE job = $1 \
               ORDER BY seq, sub";
    let mut records: Vec<Record> = Vec::new();
    for row in session.rows(sql, &[&job.to_string()]).await? {
        let handle: Option<String> = row.column(1)?;
        records.push(match (handle, row.column::<i32>(0)?) {
            (Some(handle), _) => EngineMark::ToolWhole { handle, content: String::new() }.into(),
            (None, 0) => Record::Event(row.document(2)?),
            (None, _) => Record::Mark(row.document(2)?),
        });
    }
    Ok(records)
}

impl Results for PostgresStore {
    fn result(&self, user: UserId, handle: &ResultHandle) -> Result<Option<String>, StoreError> {
        let sql = "SELECT body::text FROM records JOIN jobs ON jobs.id = records.job \
                   WHERE job = $1 AND user_id = $2 AND handle = $3 ORDER BY seq, sub LIMIT 1";
        let params = (handle.job.to_string(), sql_user(user), handle.to_string());
        let found = self.read(async |session: &SqlSession<'_>| {
            session.row(sql, &[&params.0, &params.1, &params.2]).await
        })?;
        match found.map(|row| row.document(0)).transpose()? {
            Some(EngineMark::ToolWhole { content, .. }) => Ok(Some(content)),
            _ => Ok(None),
        }
    }
}
