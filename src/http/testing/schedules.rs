//! Schedules of which there are none: black-box tests have real ones.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::Job;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::ports::{
    FiredSchedules, ScheduleError, SchedulePage, ScheduleQuery, ScheduleStatus, Schedules, StoreError, Ticket,
};

/// No schedules.
pub(super) struct NoSchedules;

impl Schedules for NoSchedules {
    fn put(&self, _: Schedule, _: ScheduledRequest, most: u64) -> Ticket<Schedule, ScheduleError> {
        Ticket::resolved(Err(ScheduleError::SchedulesFull { limit: most }))
    }
    fn remove(&self, _: UserId, _: ScheduleId) -> Ticket<bool> {
        Ticket::resolved(Err(StoreError::Closed))
    }
    fn set_paused(&self, _: UserId, _: ScheduleId, _: bool) -> Ticket<bool> {
        Ticket::resolved(Ok(false))
    }
    fn run_now(&self, _: UserId, _: ScheduleId, _: JobId) -> Ticket<Option<Job>, ScheduleError> {
        Ticket::resolved(Ok(None))
    }
    fn fire_due(&self, _: Vec<JobId>) -> Ticket<FiredSchedules> {
        unreachable!("HTTP keeps no time")
    }
    fn rearm(&self) -> Ticket<u64> {
        unreachable!("HTTP keeps no time")
    }
    fn schedule(
        &self,
        _: UserId,
        _: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError> {
        Ok(None)
    }
    fn schedules(&self, _: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
        Ok(SchedulePage { schedules: Vec::new(), has_more: false })
    }
    fn next_run_ms(&self) -> Result<Option<u64>, StoreError> {
        unreachable!("HTTP keeps no time")
    }
}
