//! `GET /v1/jobs/{id}/audit`: what became of every call of a tool that the job made, as long as the audit log keeps it.
//! Another user's job does not exist (P7).

use super::job_view;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::v1::page::List;
use crate::ports::{AuditEntry, AuditPage};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Entries of one answer.
const ENTRIES_MAX: usize = 2_000;

/// A line of the answer.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AuditLine"))]
#[derive(Serialize)]
pub(crate) struct View {
    object: &'static str,
    #[serde(flatten)]
    entry: AuditEntry,
}

/// The newest calls, oldest first; `has_more` where older ones are left out.
pub(crate) async fn audit(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let (audit, user) = (Arc::clone(&door.room.audit), call.user);
    let found = door.read(move |store| match store.job(user, id)? {
        Some(job) => audit.of_job(user, id, job.created_at_ms, ENTRIES_MAX).map(Some),
        None => Ok(None),
    });
    let AuditPage { entries, has_more } = found.await?.ok_or(Error::NotFound("job"))?;
    let data = entries.into_iter().map(|entry| View { object: "audit_entry", entry }).collect();
    Ok(reply::json(StatusCode::OK, &List::<View, String>::cut(data, has_more)))
}
