//! `after`, `on_failure`, `deadline_at`, `expires_at` and `max_cost_micros` of a job. Whether the jobs of
//! `after` exist is for the store to say, in the transaction that accepts the job.

use crate::domain::id::JobId;
use crate::domain::job_conditions::{JobConditions, OnFailure};
use crate::domain::message::Message;
use crate::domain::result_reference::{RESULT_REFERENCES, referenced_in, referenced_jobs};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;

/// The conditions of a request as it states them.
pub(super) struct ConditionsRequest {
    pub(super) after: Vec<JobId>,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) deadline_ms: Option<u64>,
    pub(super) expires_at_ms: Option<u64>,
    pub(super) run_at_ms: Option<u64>,
    pub(super) max_cost_micros: Option<u64>,
}

impl ConditionsRequest {
    /// Checks the conditions. Times that have passed are no error: a repeated request gets the answer to the
    /// first one.
    pub(super) fn check(
        self,
        (input, system_prompt): (&[Message], Option<&str>),
        (model, app): (&str, &AppDependencies),
    ) -> Result<JobConditions, ApiError> {
        let Self { deadline_ms, expires_at_ms, max_cost_micros, .. } = self;
        for (name, at_ms) in [("deadline_at", deadline_ms), ("expires_at", expires_at_ms)] {
            if at_ms.zip(self.run_at_ms).is_some_and(|(at_ms, run_at_ms)| at_ms <= run_at_ms) {
                return Err(ApiError::value(name, format!("'{name}' must be later than 'run_at'")));
            }
        }
        let after = after(self.after, app.limits.job_predecessors)?;
        if after.is_empty() && self.on_failure.is_some() {
            return Err(ApiError::value("on_failure", "'on_failure' belongs to 'after', which names no job"));
        }
        check_references(input, system_prompt, &after)?;
        if max_cost_micros.is_some() {
            check_prices(model, app)?;
        }
        let on_failure = self.on_failure.unwrap_or_default();
        Ok(JobConditions { after, on_failure, deadline_ms, expires_at_ms, max_cost_micros })
    }
}

/// The jobs in their order, each once.
fn after(given: Vec<JobId>, most: usize) -> Result<Vec<JobId>, ApiError> {
    let mut jobs = Vec::new();
    for job in given {
        if !jobs.contains(&job) {
            if jobs.len() >= most {
                let rule = format!("'after' names more than limits.job_predecessors = {most} jobs");
                return Err(ApiError::value("after", rule));
            }
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// Without `after`, what looks like a reference is text.
fn check_references(input: &[Message], system_prompt: Option<&str>, after: &[JobId]) -> Result<(), ApiError> {
    if after.is_empty() {
        return Ok(());
    }
    let in_prompt = system_prompt.into_iter().flat_map(referenced_in).map(|job| ("system_prompt", job));
    let in_input = referenced_jobs(input).map(|job| ("input", job));
    let mut references = 0_usize;
    for (field, job) in in_prompt.chain(in_input) {
        references = references.saturating_add(1);
        if !after.contains(&job) {
            let rule = format!("'{field}' refers to the result of {job}, which 'after' does not name");
            return Err(ApiError::value(field, rule));
        }
        if references > RESULT_REFERENCES {
            let rule = format!("the request has more than {RESULT_REFERENCES} references to results");
            return Err(ApiError::value(field, rule));
        }
    }
    Ok(())
}

/// A limit of cost needs the prices of all models that may answer.
fn check_prices(model: &str, app: &AppDependencies) -> Result<(), ApiError> {
    let fallbacks = app.model.model(model).map(|model| model.fallback).unwrap_or_default();
    let has_price = |id: &str| app.model.model(id).is_some_and(|model| model.price.is_some());
    let models = std::iter::once(model).chain(fallbacks.iter().map(String::as_str));
    match models.into_iter().find(|id| !has_price(id)) {
        Some(unknown) => Err(ApiError::Invalid {
            message: format!(
                "the model {} has no price, so 'max_cost_micros' could not be kept: leave it out, use \
                 'max_total_tokens', or have the operator set the model's price",
                quoted(unknown)
            ),
            param: Some("max_cost_micros".to_owned()),
            code: "unsupported_value",
        }),
        None => Ok(()),
    }
}
