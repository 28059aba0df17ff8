//! The answers of other jobs that a request refers to (`{{result:JOB_ID}}`), as the prompt shows them.

use super::handed_calls;
use crate::domain::characters::beginning;
use crate::domain::id::JobId;
use crate::domain::job::{History, Job, JobSpec};
use crate::domain::result_reference::{
    RESULT_REFERENCES, referenced_in, referenced_jobs, text_with_results, with_results,
};
use crate::ports::{Lease, Store, StoreError};
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of answers that earlier turns show.
const HISTORY_RESULT_BYTES: usize = 1024 * 1024;

/// The answers that the prompt of this job shows, each at most `max_bytes` long: of the jobs in `after` that
/// the request refers to, and of those that earlier turns do, the newest first. A job of an earlier turn that
/// the user does not have is none.
pub(super) fn shown(
    store: &dyn Store,
    lease: &Lease,
    max_bytes: usize,
    history: &History,
) -> Result<BTreeMap<JobId, String>, StoreError> {
    if let Some(recorded) = store.recorded_results() {
        return Ok(recorded);
    }
    let (job, spec) = (&lease.job, &lease.spec);
    let in_prompt = spec.system_prompt.as_deref().into_iter().flat_map(referenced_in);
    let own = in_prompt.chain(referenced_jobs(&spec.input)).filter(|id| job.conditions.after.contains(id));
    let mut answers = BTreeMap::new();
    for id in own {
        if let Entry::Vacant(entry) = answers.entry(id) {
            let result = result_of(store, (job, id), max_bytes)?;
            entry.insert(result.unwrap_or_else(|| format!("[{id} was deleted]")));
        }
    }
    let (mut earlier, mut left) = (BTreeSet::new(), HISTORY_RESULT_BYTES);
    for id in history.turns.iter().rev().flat_map(|turn| referenced_jobs(&turn.messages)) {
        if earlier.len() >= RESULT_REFERENCES {
            break;
        }
        if !earlier.insert(id) || answers.contains_key(&id) {
            continue;
        }
        if let Some(result) = result_of(store, (job, id), max_bytes)? {
            let fits = left.checked_sub(result.len());
            left = fits.unwrap_or(left);
            answers.insert(id, if fits.is_some() { result } else { left_out(id) });
        }
    }
    Ok(answers)
}

/// The request as the prompt shows it: with the whole answers and the results that its input stands for, and
/// with answers in the place of references to the jobs that this one comes after.
pub(super) fn spec_in_prompt<'l>(
    store: &dyn Store,
    lease: &'l Lease,
    answers: &BTreeMap<JobId, String>,
) -> Result<Cow<'l, JobSpec>, StoreError> {
    let (spec, after) = (&*lease.spec, &lease.job.conditions.after);
    let restored = handed_calls::restored(store, lease.job.user, &spec.input)?;
    if restored.is_none() && after.is_empty() {
        return Ok(Cow::Borrowed(spec));
    }
    // A regenerated answer may have another system prompt than the request that was checked.
    let in_prompt = spec.system_prompt.as_deref().into_iter().flat_map(referenced_in);
    let is_checked = in_prompt.chain(referenced_jobs(&spec.input)).count() <= RESULT_REFERENCES;
    let is_shown = |id: &JobId| is_checked && after.contains(id);
    let answers: BTreeMap<_, _> =
        answers.iter().filter(|(id, _)| is_shown(id)).map(|(id, text)| (*id, text.clone())).collect();
    let input = with_results(restored.unwrap_or_else(|| spec.input.clone()), &answers);
    let system_prompt = spec.system_prompt.as_ref().map(|text| text_with_results(text, &answers));
    Ok(Cow::Owned(JobSpec { input, system_prompt, ..spec.clone() }))
}

/// Puts answers into earlier turns of the conversation, which the jobs of those turns have seen. Turns before
/// the newest 1 MiB of answers say that theirs are left out.
pub(super) fn put_into_history(answers: &BTreeMap<JobId, String>, history: &mut History) {
    if answers.is_empty() {
        return;
    }
    let omissions: BTreeMap<JobId, String> = answers.keys().map(|id| (*id, left_out(*id))).collect();
    let mut left = Some(HISTORY_RESULT_BYTES);
    for turn in history.turns.iter_mut().rev() {
        let named = referenced_jobs(&turn.messages).filter_map(|id| answers.get(&id));
        let bytes = named.map(String::len).fold(0, usize::saturating_add);
        left = left.and_then(|left| left.checked_sub(bytes));
        let shown = if left.is_some() { answers } else { &omissions };
        turn.messages = with_results(std::mem::take(&mut turn.messages), shown);
    }
}

/// What stands in the place of an answer that there is no room for.
fn left_out(id: JobId) -> String {
    format!("[the answer of {id} is left out here]")
}

/// The answer of a job, or why there is none; `None` if the user does not have the job.
fn result_of(
    store: &dyn Store,
    (successor, id): (&Job, JobId),
    max_bytes: usize,
) -> Result<Option<String>, StoreError> {
    let Some(job) = store.job(successor.user, id)? else { return Ok(None) };
    if !job.status.is_terminal() {
        return Ok(Some(format!("[{id} runs again and has no answer yet]")));
    }
    let output = store.output(id)?.unwrap_or_default();
    let shown = beginning(&output, max_bytes);
    let text = if shown.len() < output.len() {
        format!("{shown}\n[the answer of {id} has {} bytes; the rest is left out]", output.len())
    } else {
        shown.to_owned()
    };
    Ok(Some(match job.error {
        Some(error) if text.is_empty() => format!("[{id} has no answer: {}]", error.message),
        Some(error) => format!("{text}\n[the answer of {id} is incomplete: {}]", error.message),
        None => text,
    }))
}
