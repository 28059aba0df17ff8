//! Leases ready jobs. The attempt is counted, durably, before any work.

use crate::domain::job::{JobSpec, JobStatus};
use crate::ports::{CancelToken, Lease, StoreError};
use crate::store::postgres::jobs::insert::first_link;
use crate::store::postgres::jobs::queue::ReadyJob;
use crate::store::postgres::jobs::row::{ROW, move_row, read_row, tail};
use crate::store::postgres::session::{Columns, document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::JobRow;
use crate::store::rows::lease::{LeasedJob, LogTail};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::Row;

impl Act<'_> {
    /// Leases up to `max` ready jobs.
    pub(crate) async fn claim_jobs(&mut self, max: usize) -> Result<Vec<Lease>, StoreError> {
        self.insert_jobs().await?;
        self.look_for_due().await?;
        let mut leases = Vec::new();
        while leases.len() < max {
            let ready = self.next_ready(max.saturating_sub(leases.len())).await?;
            if ready.is_empty() {
                break;
            }
            let Some(taken) = self.take(&ready, max.saturating_sub(leases.len())).await? else {
                // Other nodes have taken them all. Their notifications, or the next look, bring more.
                break;
            };
            leases.extend(taken);
        }
        Ok(leases)
    }

    /// Takes the first `max` of these that no other node takes at the same time; `None` if there are none.
    async fn take(&mut self, ready: &[ReadyJob], max: usize) -> Result<Option<Vec<Lease>>, StoreError> {
        let ids: Vec<String> = ready.iter().map(|job| job.job.to_string()).collect();
        let sql = format!(
            "SELECT {ROW}, spec::text, jobs.id FROM jobs JOIN unnest($1::text[]) WITH ORDINALITY AS u(id, nth) ON jobs.id = u.id \
             WHERE place IS NOT DISTINCT FROM 'ready' AND status IS NOT DISTINCT FROM 'queued' ORDER BY u.nth LIMIT $2 FOR NO KEY UPDATE OF jobs SKIP LOCKED"
        );
        let found = self.session.rows(&sql, &[&ids, &sql_number(max)]).await?;
        let by_id: HashMap<_, _> = ready.iter().map(|job| (job.job, *job)).collect();
        if found.is_empty() {
            return Ok(None);
        }
        let (mut taken, mut served) = (Vec::new(), Vec::new());
        for found in found {
            let read = self.read_claimed(&found).await;
            let Some((row, spec, tail)) = self.readable(read, &found, 7).await? else { continue };
            if self.hold_overdue(&row).await? {
                continue;
            }
            if let Some(claimed) = by_id.get(&row.id()) {
                self.effects.metrics.claim(self.now_ms.saturating_sub(claimed.since_ms));
                served.push(*claimed);
            }
            taken.push(self.lease_out(row, spec, tail)?);
        }
        self.write_claims(&taken).await?;
        self.note_served(&served).await?;
        let leases = taken.into_iter().map(|leased| {
            let (job, spec, cancel) =
                (leased.row.job.clone(), Arc::clone(&leased.spec), leased.cancel.clone());
            self.keep(leased);
            Lease { job, spec, cancel, is_in_memory: false }
        });
        Ok(Some(leases.collect()))
    }

    async fn read_claimed(&mut self, found: &Row) -> Result<(JobRow, JobSpec, LogTail), StoreError> {
        let row = read_row(found, 0)?;
        let tail = self.tail_of(&row).await?;
        Ok((row, found.document(6)?, tail))
    }

    async fn tail_of(&mut self, row: &JobRow) -> Result<LogTail, StoreError> {
        if row.job.attempt == 0 && row.job.last_event_id == 1 {
            // No other code writes the first record, so it need not be read.
            let link = first_link(row);
            return Ok(LogTail { seq: 1, link, ..LogTail::default() });
        }
        self.flush().await?;
        tail(&self.session, row.id()).await
    }

    fn lease_out(
        &mut self,
        mut row: JobRow,
        spec: JobSpec,
        mut tail: LogTail,
    ) -> Result<LeasedJob, StoreError> {
        let event = row.begin_run(self.now_ms);
        self.append_event(row.id(), &mut tail, event)?;
        row.job.last_event_id = tail.seq;
        move_row(&mut row, JobStatus::Running)?;
        let cancel = CancelToken::new(Arc::clone(&self.shared.clock));
        Ok(LeasedJob { row: Arc::new(row), spec: Arc::new(spec), cancel, tail })
    }

    async fn write_claims(&mut self, leased: &[LeasedJob]) -> Result<(), StoreError> {
        if leased.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = leased.iter().map(|leased| leased.row.id().to_string()).collect();
        let epochs: Vec<i64> = leased.iter().map(|leased| sql_number(leased.row.job.epoch)).collect();
        let rows: Vec<String> =
            leased.iter().map(|leased| document(&*leased.row)).collect::<Result<_, _>>()?;
        let sql = "UPDATE jobs SET status = 'running', place = 'out', ready_since_ms = NULL, lease_node = $4, \
                   epoch = u.epoch, row = u.row::json \
                   FROM unnest($1::text[], $2::bigint[], $3::text[]) AS u(id, epoch, row) WHERE jobs.id = u.id";
        self.session.send(sql, &[&ids, &epochs, &rows, &self.node]).await
    }
}
