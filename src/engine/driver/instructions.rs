//! What tools say in a job's prompt, such as the list of skills and the memory, and the answers of other jobs
//! in it. The log has them, so that a resumed run and a replay send the same prompt.

use super::Driver;
use crate::domain::event::EngineMark;
use crate::ports::{LeaseError, Ticket, Urgency};

impl Driver<'_> {
    /// Records what the tools have said and the answers of other jobs, unless the log has them. Nothing waits
    /// for this write but the end of the next model call.
    pub(super) fn record_instructions(&mut self) {
        let texts = std::mem::take(&mut self.unrecorded_instructions);
        let results = std::mem::take(&mut self.unrecorded_results);
        if texts.is_empty() && results.is_empty() {
            return;
        }
        let records = vec![EngineMark::Instructions { texts, results }.into()];
        self.apply(&records);
        self.recording = Some(self.ports.store.append(self.lease.fence(), records, Urgency::Soon));
    }

    /// Waits until they are in the log.
    pub(super) fn wait_for_instructions(&mut self) -> Result<(), LeaseError> {
        self.recording.take().map_or(Ok(()), Ticket::wait)
    }
}
