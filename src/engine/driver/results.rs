//! The answers of other jobs that a job's input refers to (`{{result:JOB_ID}}`), as its prompt shows them.

use crate::domain::characters::beginning;
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::message::Message;
use crate::domain::result_reference::{referenced_jobs, with_results};
use crate::ports::{Lease, Store, StoreError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The input with answers in the place of references to the jobs that this one comes after. Each is at most
/// `max_bytes` long.
pub(super) fn with_predecessor_results(
    store: &dyn Store,
    lease: &Lease,
    max_bytes: usize,
    input: Vec<Message>,
) -> Result<Vec<Message>, StoreError> {
    let after = &lease.job.conditions.after;
    if after.is_empty() {
        return Ok(input);
    }
    let mut answers = BTreeMap::new();
    for job in referenced_jobs(&input).filter(|job| after.contains(job)) {
        if let Entry::Vacant(entry) = answers.entry(job) {
            entry.insert(result_of(store, (&lease.job, job), max_bytes)?);
        }
    }
    Ok(with_results(input, &answers))
}

/// The answer of a job, or why there is none.
fn result_of(
    store: &dyn Store,
    (successor, id): (&Job, JobId),
    max_bytes: usize,
) -> Result<String, StoreError> {
    let Some(job) = store.job(successor.user, id)? else { return Ok(format!("[{id} was deleted]")) };
    if !job.status.is_terminal() {
        return Ok(format!("[{id} runs again and has no answer yet]"));
    }
    let output = store.output(id)?.unwrap_or_default();
    let shown = beginning(&output, max_bytes);
    let text = if shown.len() < output.len() {
        format!("{shown}\n[the answer of {id} has {} bytes; the rest is left out]", output.len())
    } else {
        shown.to_owned()
    };
    match job.error {
        Some(error) if text.is_empty() => Ok(format!("[{id} has no answer: {}]", error.message)),
        Some(error) => Ok(format!("{text}\n[the answer of {id} is incomplete: {}]", error.message)),
        None => Ok(text),
    }
}
