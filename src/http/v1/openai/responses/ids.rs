//! Ids of responses and of their items. Both name the job, so no table of ids is needed.

use crate::domain::id::JobId;
use crate::domain::response_request::RESPONSE_PREFIX;
pub(super) use crate::domain::response_request::response_id;
use crate::ports::EntryRef;

/// The end of ids of input items, and of items without a job.
const INPUT: &str = "_in";
const ADDED: &str = "_add";

/// The job of a response.
pub(super) fn job_of(id: &str) -> Option<JobId> {
    id.strip_prefix(RESPONSE_PREFIX)?.parse().ok()
}

/// The id of the item at this place of a job's output.
pub(super) fn item_id(prefix: &str, job: JobId, place: usize) -> String {
    let job = job.to_string();
    format!("{prefix}_{}_{place}", job.strip_prefix(JobId::PREFIX).unwrap_or(&job))
}

/// The id of the input item at this place; no output item of the job has it.
pub(super) fn input_id(prefix: &str, job: JobId, place: usize) -> String {
    format!("{}{INPUT}", item_id(prefix, job, place))
}

/// The id of an item that was added to a conversation; `bits` are of the items that were added together.
pub(super) fn added_id(prefix: &str, bits: u128, place: usize) -> String {
    format!("{}{ADDED}", item_id(prefix, JobId::from_bits(bits), place))
}

/// Where a conversation has the item of this id.
pub(super) fn entry_of(id: &str) -> Option<EntryRef<'_>> {
    if id.ends_with(ADDED) {
        return Some(EntryRef::Added(id));
    }
    let (job, _) = item_place(id.strip_suffix(INPUT).unwrap_or(id))?;
    Some(EntryRef::Job(job))
}

/// The job and the place of an output item.
pub(super) fn item_place(id: &str) -> Option<(JobId, usize)> {
    let (rest, place) = id.rsplit_once('_')?;
    let (_, job) = rest.rsplit_once('_')?;
    Some((format!("{}{job}", JobId::PREFIX).parse().ok()?, place.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let job = JobId::from_bits(u128::MAX);
        assert_eq!(job_of(&response_id(job)), Some(job));
        assert_eq!(item_place(&item_id("msg", job, 12)), Some((job, 12)));
        for other in ["", "resp_", "resp_job_1", "msg_1_2", "call_x"] {
            assert_eq!((job_of(other), item_place(other)), (None, None), "{other}");
        }
        for id in [item_id("msg", job, 0), input_id("fc", job, 1)] {
            assert_eq!(entry_of(&id), Some(EntryRef::Job(job)), "{id}");
        }
        let added = added_id("msg", 7, 0);
        assert_eq!(entry_of(&added), Some(EntryRef::Added(&added)));
        assert_eq!(entry_of("msg_1"), None);
    }
}
