//! The answers of other jobs that a request refers to (`{{result:JOB_ID}}`), as the prompt shows them.

use crate::domain::characters::beginning;
use crate::domain::id::JobId;
use crate::domain::job::{History, Job, JobSpec};
use crate::domain::result_reference::{
    RESULT_REFERENCES, referenced_in, referenced_jobs, text_with_results, with_results,
};
use crate::ports::{Lease, Store, StoreError};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The request with answers in the place of references to the jobs that this one comes after. Each is at most
/// `max_bytes` long.
pub(super) fn with_predecessor_results(
    store: &dyn Store,
    lease: &Lease,
    max_bytes: usize,
    spec: JobSpec,
) -> Result<JobSpec, StoreError> {
    let after = &lease.job.conditions.after;
    let in_prompt = spec.system_prompt.as_deref().into_iter().flat_map(referenced_in);
    let mut answers = BTreeMap::new();
    for job in in_prompt.chain(referenced_jobs(&spec.input)).filter(|job| after.contains(job)) {
        if let Entry::Vacant(entry) = answers.entry(job) {
            entry.insert(result_of(store, (&lease.job, job), max_bytes)?);
        }
    }
    let system_prompt = spec.system_prompt.map(|text| text_with_results(&text, &answers));
    Ok(JobSpec { input: with_results(spec.input, &answers), system_prompt, ..spec })
}

/// Puts answers into earlier turns of the conversation, which the jobs of those turns have seen. A reference
/// to a job that the user does not have stays.
pub(super) fn put_into_history(
    store: &dyn Store,
    job: &Job,
    max_bytes: usize,
    history: &mut History,
) -> Result<(), StoreError> {
    let turns = history.turns.iter();
    let named: BTreeSet<JobId> =
        turns.flat_map(|turn| referenced_jobs(&turn.messages)).take(RESULT_REFERENCES).collect();
    let mut answers = BTreeMap::new();
    for id in named {
        if store.job(job.user, id)?.is_some() {
            answers.insert(id, result_of(store, (job, id), max_bytes)?);
        }
    }
    if answers.is_empty() {
        return Ok(());
    }
    for turn in &mut history.turns {
        turn.messages = with_results(std::mem::take(&mut turn.messages), &answers);
    }
    Ok(())
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
