//! The results of an evaluation as a table for a terminal and as JSON.

use crate::cli::jobs::render::cut;
use crate::cli::replay::report::{money, seconds};
use crate::domain::usage::Usage;
use serde_json::{Value, json};

/// What became of a check.
#[derive(Debug)]
pub(super) struct CheckResult {
    pub(super) title: String,
    /// `None`: the answer passes.
    pub(super) fault: Option<String>,
}

/// A case with a model.
#[derive(Debug)]
pub(super) struct CaseResult {
    pub(super) case: String,
    pub(super) line: u64,
    pub(super) model: String,
    pub(super) job: Option<String>,
    pub(super) answer: String,
    /// Why there is no answer.
    pub(super) error: Option<String>,
    pub(super) checks: Vec<CheckResult>,
    pub(super) usage: Usage,
    pub(super) time_ms: u64,
}

impl CaseResult {
    pub(super) fn passes(&self) -> bool {
        self.error.is_none() && self.checks.iter().all(|check| check.fault.is_none())
    }

    /// What is wrong, a line for each fault.
    pub(super) fn faults(&self) -> Vec<String> {
        let checks = self
            .checks
            .iter()
            .filter_map(|check| Some(format!("{}: {}", check.title, check.fault.as_ref()?)));
        self.error.iter().cloned().chain(checks).collect()
    }
}

/// The sums of a model.
#[derive(Debug, Default)]
pub(super) struct ModelSummary {
    pub(super) model: String,
    pub(super) passed: u64,
    pub(super) cases: u64,
    pub(super) usage: Usage,
    pub(super) time_ms: u64,
}

impl ModelSummary {
    /// Share of the passed cases, percent.
    pub(super) fn rate(&self) -> u64 {
        self.passed.saturating_mul(100).checked_div(self.cases).unwrap_or_default()
    }

    /// Mean time of a case.
    pub(super) fn mean_ms(&self) -> u64 {
        self.time_ms.checked_div(self.cases).unwrap_or_default()
    }
}

/// All results, in the order of the file and of the models.
#[derive(Debug)]
pub(super) struct EvalReport {
    pub(super) batch: String,
    pub(super) results: Vec<CaseResult>,
}

impl EvalReport {
    pub(super) fn failed(&self) -> usize {
        self.results.iter().filter(|result| !result.passes()).count()
    }

    /// The sums by model, in the order of their first result.
    pub(super) fn summaries(&self) -> Vec<ModelSummary> {
        let mut summaries: Vec<ModelSummary> = Vec::new();
        for result in &self.results {
            let at = summaries.iter().position(|summary| summary.model == result.model);
            let at = at.unwrap_or_else(|| {
                summaries.push(ModelSummary { model: result.model.clone(), ..ModelSummary::default() });
                summaries.len().saturating_sub(1)
            });
            let Some(summary) = summaries.get_mut(at) else { continue };
            summary.cases = summary.cases.saturating_add(1);
            summary.passed = summary.passed.saturating_add(u64::from(result.passes()));
            summary.usage += result.usage;
            summary.time_ms = summary.time_ms.saturating_add(result.time_ms);
        }
        summaries
    }

    pub(super) fn to_json(&self) -> Value {
        let models: Vec<Value> = self
            .summaries()
            .iter()
            .map(|summary| {
                json!({"model": summary.model, "passed": summary.passed, "cases": summary.cases,
                    "usage": summary.usage, "time_ms": summary.time_ms})
            })
            .collect();
        let results: Vec<Value> = self
            .results
            .iter()
            .map(|result| {
                let checks: Vec<Value> = result
                    .checks
                    .iter()
                    .map(|check| json!({"check": check.title, "passed": check.fault.is_none(), "fault": check.fault}))
                    .collect();
                json!({"case": result.case, "line": result.line, "model": result.model, "job": result.job,
                    "passed": result.passes(), "output_text": result.answer, "error": result.error,
                    "checks": checks, "usage": result.usage, "time_ms": result.time_ms})
            })
            .collect();
        json!({"batch": self.batch, "failed": self.failed(), "models": models, "results": results})
    }

    /// Models, cases, and what failed.
    pub(super) fn table(&self, columns: usize) -> String {
        let mut lines = vec![model_row("MODEL", "PASSED", "RATE", "TOKENS", ("COST", "TIME A CASE"))];
        for summary in self.summaries() {
            let passed = format!("{} of {}", summary.passed, summary.cases);
            let (rate, tokens) = (format!("{}%", summary.rate()), summary.usage.total_tokens.to_string());
            let (cost, time) = (money(summary.usage.cost_micros), seconds(summary.mean_ms()));
            lines.push(model_row(&summary.model, &passed, &rate, &tokens, (&cost, &time)));
        }
        lines.extend([String::new(), case_row("CASE", "MODEL", "", ("TOKENS", "COST", "TIME"))]);
        for result in &self.results {
            let mark = if result.passes() { "ok" } else { "FAILED" };
            let tokens = result.usage.total_tokens.to_string();
            let (cost, time) = (money(result.usage.cost_micros), seconds(result.time_ms));
            lines.push(case_row(&result.case, &result.model, mark, (&tokens, &cost, &time)));
            lines.extend(result.faults().iter().map(|fault| format!("  {fault}")));
        }
        let fit = |line: &String| format!("{}\n", cut(line.trim_end(), columns));
        lines.iter().map(fit).collect()
    }
}

fn model_row(model: &str, passed: &str, rate: &str, tokens: &str, (cost, time): (&str, &str)) -> String {
    format!("{model:<24} {passed:>12} {rate:>5} {tokens:>10} {cost:>12} {time:>12}")
}

fn case_row(case: &str, model: &str, mark: &str, (tokens, cost, time): (&str, &str, &str)) -> String {
    format!("{case:<24} {model:<16} {mark:<6} {tokens:>8} {cost:>12} {time:>12}")
}
