//! What the log says about the prompt besides messages: what tools said in it, the answers of other jobs in
//! it, and the files that the model has seen.

use crate::domain::id::JobId;
use std::collections::BTreeMap;

/// The parts of a prompt that the log has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedPrompt {
    instructions: Option<Vec<String>>,
    job_results: BTreeMap<JobId, String>,
    seen_files: BTreeMap<String, String>,
}

impl RecordedPrompt {
    /// What the tools have said stays: a retry records answers of other jobs only.
    pub(super) fn record(&mut self, instructions: &[String], job_results: &BTreeMap<JobId, String>) {
        self.instructions.get_or_insert_with(|| instructions.to_vec());
        self.job_results.clone_from(job_results);
    }

    /// A retry looks for the answers of other jobs again: they may have run again, too.
    pub(super) fn begin_again(&mut self) {
        self.job_results.clear();
    }

    pub(super) fn see_file(&mut self, path: &str, version: &str) {
        self.seen_files.insert(path.to_owned(), version.to_owned());
    }

    /// What tools said in the prompt when the job began to run, once it is recorded.
    pub fn instructions(&self) -> Option<&[String]> {
        self.instructions.as_deref()
    }

    /// The answers of other jobs that the prompt shows, as far as they are recorded.
    pub fn job_results(&self) -> &BTreeMap<JobId, String> {
        &self.job_results
    }

    /// Versions of files that the model has seen, by path.
    pub fn seen_files(&self) -> &BTreeMap<String, String> {
        &self.seen_files
    }
}
