//! Ids of responses and of their items. Both name the job, so no table of ids is needed.

use crate::domain::id::JobId;

const PREFIX: &str = "resp_";

/// The id of a job's response.
pub(super) fn response_id(job: JobId) -> String {
    format!("{PREFIX}{job}")
}

/// The job of a response.
pub(super) fn job_of(id: &str) -> Option<JobId> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

/// The id of the item at this place of a job's output.
pub(super) fn item_id(prefix: &str, job: JobId, place: usize) -> String {
    let job = job.to_string();
    format!("{prefix}_{}_{place}", job.strip_prefix(JobId::PREFIX).unwrap_or(&job))
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
    }
}
