//! The schedules port of one process: every write is a point for faults. Contains the flaw of a schedule
//! that stays due.

use super::store::SimStore;
use super::world::{Flaw, World};
use nanoclaw::domain::id::{JobId, ScheduleId, UserId};
use nanoclaw::domain::job::Job;
use nanoclaw::domain::schedule::{Schedule, ScheduledRequest};
use nanoclaw::ports::{
    FiredSchedules, NodeStore, ScheduleError, SchedulePage, ScheduleQuery, ScheduleStatus, Schedules,
    StoreError, Ticket,
};
use std::sync::Arc;

/// Sits between scheduler and store.
pub(crate) struct SimSchedules {
    world: Arc<World>,
    store: Arc<SimStore>,
}

impl SimSchedules {
    pub(crate) fn new(world: &Arc<World>, store: &Arc<SimStore>) -> Self {
        Self { world: Arc::clone(world), store: Arc::clone(store) }
    }
}

/// Fires due schedules and restores their previous state.
fn fire_and_forget(
    store: &dyn NodeStore,
    fresh_ids: Vec<JobId>,
    known: Vec<(UserId, ScheduleId)>,
) -> Ticket<FiredSchedules> {
    let before = |(user, id)| store.schedule(user, id).ok().flatten();
    let before: Vec<_> = known.into_iter().filter_map(before).collect();
    let fired = store.fire_due(fresh_ids).wait();
    for (schedule, _) in fired.iter().flat_map(|fired| &fired.jobs) {
        let old = before.iter().find(|(standing, _)| standing.schedule.id == *schedule);
        if let Some((ScheduleStatus { schedule, .. }, order)) = old.cloned() {
            drop(store.remove(schedule.user, schedule.id).wait());
            drop(store.put(schedule, order, u64::MAX).wait());
        }
    }
    Ticket::resolved(fired)
}

impl Schedules for SimSchedules {
    fn put(
        &self,
        schedule: Schedule,
        order: ScheduledRequest,
        limit: u64,
    ) -> Ticket<Schedule, ScheduleError> {
        Ticket::resolved(self.store.write("put schedule", |store| store.put(schedule, order, limit)))
    }

    fn remove(&self, user: UserId, id: ScheduleId) -> Ticket<bool> {
        Ticket::resolved(self.store.write("remove schedule", |store| store.remove(user, id)))
    }

    fn set_paused(&self, user: UserId, id: ScheduleId, is_paused: bool) -> Ticket<bool> {
        Ticket::resolved(self.store.write("pause schedule", |store| store.set_paused(user, id, is_paused)))
    }

    fn run_now(&self, user: UserId, id: ScheduleId, fresh_id: JobId) -> Ticket<Option<Job>, ScheduleError> {
        Ticket::resolved(self.store.write("run schedule", |store| store.run_now(user, id, fresh_id)))
    }

    fn fire_due(&self, fresh_ids: Vec<JobId>) -> Ticket<FiredSchedules> {
        Ticket::resolved(self.store.write("fire", |store| match self.world.flaw {
            Flaw::FiresTwice => {
                let known = self.world.oracle(|oracle| oracle.client_records.schedules());
                fire_and_forget(store, fresh_ids, known)
            }
            _ => store.fire_due(fresh_ids),
        }))
    }

    fn rearm(&self) -> Ticket<u64> {
        Ticket::resolved(self.store.write("rearm", |store| store.rearm()))
    }

    fn schedule(
        &self,
        user: UserId,
        id: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError> {
        self.store.read(|store| store.schedule(user, id))
    }

    fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, StoreError> {
        self.store.read(|store| store.schedules(query))
    }

    fn next_run_ms(&self) -> Result<Option<u64>, StoreError> {
        self.store.read(|store| store.next_run_ms())
    }
}
