//! What the outside world knows of the store: what was acknowledged, and what was read.

use crate::kit::{ANN, BOB, done};
use nanoclaw::domain::event::Record;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::job::JobStatus;
use nanoclaw::ports::{JobQuery, Store};
use nanoclaw::store::RedbStore;
use std::collections::BTreeMap;

/// By job: the log as it was seen, and the answer once the end was acknowledged or seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    jobs: BTreeMap<JobId, Known>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    log: Vec<Record>,
    end: Option<(JobStatus, String)>,
}

impl Ledger {
    /// Remembers how the store shows a job now. A reader does the same, so that whatever can be read counts as seen.
    pub(crate) fn note(&mut self, store: &RedbStore, job: JobId) {
        let log = store.log(job).unwrap();
        let known = self.jobs.entry(job).or_default();
        assert!(log.starts_with(&known.log), "the log of a living store only grows");
        known.log = log;
        if let Some(row) = find(store, job).filter(|row| row.status.is_terminal()) {
            known.end = Some((row.status, store.output(job).unwrap().unwrap()));
        }
    }

    /// What a reopened store owes to whoever kept this ledger.
    pub(crate) fn check(&self, store: &RedbStore) -> Result<(), String> {
        for (job, known) in &self.jobs {
            let row = find(store, *job).ok_or_else(|| format!("{job} is lost"))?;
            let log = store.log(*job).map_err(|e| e.to_string())?;
            if !log.starts_with(&known.log) {
                return Err(format!("{job}: seen {:#?}, now {log:#?}", known.log));
            }
            if let Some((status, output)) = &known.end {
                let now = store.output(*job).map_err(|e| e.to_string())?;
                if row.status != *status || now.as_ref() != Some(output) {
                    return Err(format!(
                        "{job} had ended {status:?} with {output:?}, now {:?} with {now:?}",
                        row.status
                    ));
                }
            }
        }
        all(store)?.iter().try_for_each(|job| consistent(store, *job))
    }
}

/// Runs every job to its end: nobody may be stuck anywhere.
pub(crate) fn drain(store: &RedbStore) -> Result<(), String> {
    loop {
        let leases = store.claim(3).wait().map_err(|e| e.to_string())?;
        if leases.is_empty() {
            break;
        }
        for lease in leases {
            let ending = done(lease.job.id, "drained");
            store.finish(lease.fence(), Vec::new(), ending).wait().map_err(|e| e.to_string())?;
        }
    }
    for job in all(store)? {
        consistent(store, job)?;
        if !find(store, job).is_some_and(|row| row.status.is_terminal()) {
            return Err(format!("{job} can never run"));
        }
    }
    Ok(())
}

/// What holds of every job at every time when no worker runs.
fn consistent(store: &RedbStore, job: JobId) -> Result<(), String> {
    let row = find(store, job).ok_or_else(|| format!("{job} is listed and not there"))?;
    let page = store.events(job, 0, 100_000).map_err(|e| e.to_string())?;
    let gapless = page.events.iter().map(|e| e.seq).eq(1..=page.last_seq);
    let ends = page.events.iter().filter(|e| e.event.is_terminal()).count();
    let ends_last = page.events.last().is_some_and(|e| e.event.is_terminal());
    let is_terminal = row.status.is_terminal();
    let fits = gapless
        && ends == usize::from(is_terminal)
        && ends_last == is_terminal
        && row.status != JobStatus::Running
        && row.last_event_id == page.last_seq;
    if fits { Ok(()) } else { Err(format!("{row:#?} does not fit {page:#?}")) }
}

fn all(store: &RedbStore) -> Result<Vec<JobId>, String> {
    let mut jobs = Vec::new();
    for user in [ANN, BOB] {
        let query = JobQuery { user, status: None, before: None, limit: 10_000 };
        let page = store.jobs(&query).map_err(|e| e.to_string())?;
        jobs.extend(page.jobs.iter().map(|job| job.id));
    }
    Ok(jobs)
}

fn find(store: &RedbStore, job: JobId) -> Option<nanoclaw::domain::job::Job> {
    [ANN, BOB].into_iter().find_map(|user| store.job(user, job).ok().flatten())
}
