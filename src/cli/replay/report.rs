//! What a run did, in figures, and two runs side by side.

use super::log::Difference;
use super::run::Replayed;
use crate::cli::jobs::render::{cut, one_line};
use crate::domain::event::{EngineMark, Event, Record, StepKind};
use crate::domain::usage::{Usage, UsageByModel};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Characters of an act, and of a record that differs.
const ACT_CHARS: usize = 200;

/// What a run did.
#[derive(Debug, Default)]
pub(super) struct RunFigures {
    models: BTreeSet<String>,
    status: &'static str,
    steps: u64,
    tool_calls: u64,
    usage: Usage,
    time_ms: Option<u64>,
    output: String,
    /// Texts and calls, in order.
    acts: Vec<String>,
}

impl RunFigures {
    /// The figures of a log. `model` is the job's own.
    pub(super) fn of(records: &[Record], model: &str, output: &str, time_ms: Option<u64>) -> Self {
        let mut figures =
            Self { status: "unfinished", time_ms, output: output.to_owned(), ..Self::default() };
        let (mut usage, mut text) = (UsageByModel::default(), String::new());
        for record in records {
            usage.add_record(record, model);
            match record {
                Record::Event(Event::Delta { kind: StepKind::Text, text: piece, .. }) => text.push_str(piece),
                Record::Event(Event::StepDiscarded { .. }) => text.clear(),
                Record::Event(Event::ToolCall { call, .. }) => {
                    figures.tool_calls = figures.tool_calls.saturating_add(1);
                    figures.acts.push(act(&format!("{} {}", call.name, call.arguments)));
                }
                Record::Mark(EngineMark::ModelFinished { model: other, .. }) => {
                    figures.steps = figures.steps.saturating_add(1);
                    figures.models.insert(other.clone().unwrap_or_else(|| model.to_owned()));
                    let said = std::mem::take(&mut text);
                    if !said.trim().is_empty() {
                        figures.acts.push(act(&format!("“{}”", said.trim())));
                    }
                }
                Record::Event(Event::Done { .. }) => figures.status = "succeeded",
                Record::Event(Event::Error { code, content, .. }) => {
                    figures.status = "failed";
                    figures.acts.push(act(&format!("{}: {content}", code.as_str())));
                }
                _ => {}
            }
        }
        figures.usage = usage.total();
        figures
    }

    fn to_json(&self) -> Value {
        json!({
            "models": self.models,
            "status": self.status,
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "usage": self.usage,
            "time_ms": self.time_ms,
            "output_text": self.output,
        })
    }
}

fn act(text: &str) -> String {
    one_line(text).chars().take(ACT_CHARS).collect()
}

/// A recorded run and its replay.
pub(super) struct Comparison {
    pub(super) job: String,
    pub(super) recorded: RunFigures,
    pub(super) replay: RunFigures,
}

impl Comparison {
    pub(super) fn of(job: String, recorded: RunFigures, model: &str, replayed: &Replayed) -> Self {
        let replay = RunFigures::of(&replayed.records, model, &replayed.output, replayed.time_ms);
        Self { job, recorded, replay }
    }

    pub(super) fn to_json(&self) -> Value {
        let steps: Vec<Value> = self
            .acts()
            .map(|(recorded, replay)| json!({"recorded": recorded, "replay": replay, "is_same": recorded == replay}))
            .collect();
        json!({
            "job": self.job,
            "recorded": self.recorded.to_json(),
            "replay": self.replay.to_json(),
            "steps": steps,
        })
    }

    /// A table of figures, and one of what both did.
    pub(super) fn table(&self, columns: usize) -> String {
        let (one, other) = (&self.recorded, &self.replay);
        let models = |run: &RunFigures| run.models.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut lines = vec![row("", "RECORDED", "REPLAY", "CHANGE")];
        lines.push(row("models", &models(one), &models(other), ""));
        lines.push(row("status", one.status, other.status, ""));
        let numbers = [
            ("steps", one.steps, other.steps),
            ("tool calls", one.tool_calls, other.tool_calls),
            ("prompt tokens", one.usage.prompt_tokens, other.usage.prompt_tokens),
            ("completion tokens", one.usage.completion_tokens, other.usage.completion_tokens),
            ("total tokens", one.usage.total_tokens, other.usage.total_tokens),
        ];
        for (name, one, other) in numbers {
            lines.push(row(
                name,
                &one.to_string(),
                &other.to_string(),
                &change(one, other, &|number| number.to_string()),
            ));
        }
        let (spent, spends) = (one.usage.cost_micros, other.usage.cost_micros);
        lines.push(row("cost", &money(spent), &money(spends), &change(spent, spends, &money)));
        let time = |run: &RunFigures| run.time_ms.map_or_else(|| "-".to_owned(), seconds);
        let times = one.time_ms.zip(other.time_ms);
        let changed = times.map(|(one, other)| change(one, other, &seconds)).unwrap_or_default();
        lines.push(row("time", &time(one), &time(other), &changed));
        let answers = if one.output == other.output { "the same" } else { "differ" };
        lines.push(format!("{:<18} {answers}", "answers"));
        lines.push(String::new());
        for (nth, (recorded, replay)) in (1..).zip(self.acts()) {
            let (recorded, replay) = (recorded.unwrap_or("-"), replay.unwrap_or("-"));
            if recorded == replay {
                lines.push(format!("{nth:>3} = {recorded}"));
            } else {
                lines.extend([format!("{nth:>3} - {recorded}"), format!("    + {replay}")]);
            }
        }
        let fit = |line: &String| format!("{}\n", cut(line.trim_end(), columns));
        lines.iter().map(fit).collect()
    }

    fn acts(&self) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
        let (one, other) = (&self.recorded.acts, &self.replay.acts);
        (0..one.len().max(other.len()))
            .map(|nth| (one.get(nth).map(String::as_str), other.get(nth).map(String::as_str)))
    }
}

fn row(name: &str, recorded: &str, replay: &str, change: &str) -> String {
    format!("{name:<18} {recorded:<22} {replay:<22} {change}")
}

/// The difference with its sign; empty if there is none.
fn change(one: u64, other: u64, text: &dyn Fn(u64) -> String) -> String {
    match other.checked_sub(one) {
        Some(0) => String::new(),
        Some(more) => format!("+{}", text(more)),
        None => format!("-{}", text(one.saturating_sub(other))),
    }
}

/// An amount in the currency of the prices.
pub(crate) fn money(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A time in seconds.
pub(crate) fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
}

/// Where a replay left the recording, for people.
pub(super) fn describe(difference: &Difference) -> String {
    let short = |text: &Option<String>| match text {
        Some(text) => act(text),
        None => "nothing".to_owned(),
    };
    let (recorded, replayed) = (short(&difference.recorded), short(&difference.replayed));
    format!("{} differs\nrecorded: {recorded}\nreplayed: {replayed}", difference.place)
}
