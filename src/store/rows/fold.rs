//! Plans how to join the deltas of an ended job's log to one delta for each step. Pure. Numbers of remaining
//! events never change, so that every cursor stays valid.

use crate::domain::event::{Event, Record, StepKind};
use crate::domain::log_chain::RecordPlace;

/// Maximum size of a folded delta, bytes; a longer step becomes several.
const FOLDED_BYTES: usize = 4 * 1024 * 1024;

/// Changes of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoldPlan {
    pub(crate) remove: Vec<RecordPlace>,
    /// Joined deltas; each replaces the last delta that it contains.
    pub(crate) write: Vec<(RecordPlace, Event)>,
}

/// The deltas of one step so far.
struct FoldStep {
    index: u32,
    chunks: Vec<DeltaRun>,
}

/// Deltas to join to one.
struct DeltaRun {
    kind: StepKind,
    keys: Vec<RecordPlace>,
    offset: u64,
    text: String,
}

impl DeltaRun {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.text.len() as u64)
    }
}

/// Folds a log, in order. Discarded steps lose their text but not their `StepDiscarded` event.
/// `keeps_marks`: the engine may continue this job.
pub(crate) fn plan(log: impl IntoIterator<Item = (RecordPlace, Record)>, keeps_marks: bool) -> FoldPlan {
    let mut plan = FoldPlan::default();
    let mut steps: Vec<FoldStep> = Vec::new();
    for (key, record) in log {
        match record {
            Record::Mark(_) if !keeps_marks => plan.remove.push(key),
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                gather(&mut steps, index, DeltaRun { kind, keys: vec![key], offset, text });
            }
            Record::Event(Event::StepDiscarded { index }) => {
                if let Some(at) = steps.iter().rposition(|step| step.index == index) {
                    plan.remove.extend(steps.remove(at).chunks.into_iter().flat_map(|chunk| chunk.keys));
                }
            }
            _ => {}
        }
    }
    for step in steps {
        plan.fold(step);
    }
    plan
}

/// Adds a delta to its step.
fn gather(steps: &mut Vec<FoldStep>, index: u32, next: DeltaRun) {
    let step = steps.iter_mut().rev().find(|step| step.index == index);
    let Some(step) = step.filter(|step| step.chunks.last().is_some_and(|last| last.end() == next.offset))
    else {
        steps.push(FoldStep { index, chunks: vec![next] });
        return;
    };
    match step.chunks.last_mut() {
        Some(last) if last.text.len().saturating_add(next.text.len()) <= FOLDED_BYTES => {
            last.keys.extend(next.keys);
            last.text.push_str(&next.text);
        }
        _ => step.chunks.push(next),
    }
}

impl FoldPlan {
    fn fold(&mut self, step: FoldStep) {
        // A step of one delta is folded already.
        if step.chunks.iter().all(|chunk| chunk.keys.len() == 1) {
            return;
        }
        let mut first = None;
        for mut chunk in step.chunks {
            let Some(key) = chunk.keys.pop() else { continue };
            let first_seq = *first.get_or_insert(key.seq);
            let DeltaRun { kind, keys, offset, text } = chunk;
            self.remove.extend(keys);
            self.write.push((key, Event::Delta { index: step.index, kind, offset, first_seq, text }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::EngineMark;

    fn key(seq: u64, sub: u32) -> RecordPlace {
        RecordPlace { seq, sub }
    }

    fn delta(seq: u64, index: u32, offset: u64, first_seq: u64, text: &str) -> (RecordPlace, Record) {
        let event = Event::Delta { index, kind: StepKind::Text, offset, first_seq, text: text.to_owned() };
        (key(seq, 0), event.into())
    }

    fn discarded(seq: u64, index: u32) -> (RecordPlace, Record) {
        (key(seq, 0), Event::StepDiscarded { index }.into())
    }

    fn mark(seq: u64) -> (RecordPlace, Record) {
        (key(seq, 1), EngineMark::ToolStarted { id_ref: "c".to_owned() }.into())
    }

    /// As `(seq, offset, first_seq, text)`.
    fn written(plan: &FoldPlan) -> Vec<(u64, u64, u64, &str)> {
        plan.write.iter().map(view).collect()
    }

    fn view((key, event): &(RecordPlace, Event)) -> (u64, u64, u64, &str) {
        let Event::Delta { offset, first_seq, text, .. } = event else { panic!("{event:?}") };
        (key.seq, *offset, *first_seq, text)
    }

    fn removed(plan: &FoldPlan) -> Vec<(u64, u32)> {
        let mut removed: Vec<_> = plan.remove.iter().map(|key| (key.seq, key.sub)).collect();
        removed.sort_unstable();
        removed
    }

    #[test]
    fn the_deltas_of_a_step_fold_into_one_with_the_last_seq() {
        let log = [
            delta(3, 0, 0, 3, "ab"),
            delta(4, 1, 0, 4, "x"),
            delta(5, 0, 2, 3, "cé"),
            delta(6, 0, 5, 3, "d"),
        ];
        let plan = plan(log, true);
        assert_eq!(written(&plan), [(6, 0, 6, "abcéd")]);
        assert_eq!(removed(&plan), [(3, 0), (5, 0)], "the step of one delta stays as it is");
    }

    #[test]
    fn the_arguments_of_a_call_fold_like_text() {
        let piece = |seq, offset, text: &str| {
            let (index, kind, text) = (1, StepKind::Arguments, text.to_owned());
            (key(seq, 0), Event::Delta { index, kind, offset, first_seq: 4, text }.into())
        };
        let begun = (key(3, 0), Event::CallBegun { index: 1, name: "look".to_owned() }.into());
        let plan = plan([begun, piece(4, 0, "{\"n\""), piece(5, 4, ":1}")], false);
        assert_eq!(removed(&plan), [(4, 0)], "the beginning stays");
        let (kind, text) = (StepKind::Arguments, "{\"n\":1}".to_owned());
        let joined = Event::Delta { index: 1, kind, offset: 0, first_seq: 5, text };
        assert_eq!(plan.write, [(key(5, 0), joined)]);
    }

    #[test]
    fn a_discarded_step_is_removed_and_a_restarted_one_is_folded() {
        let log = [
            delta(3, 0, 0, 3, "bad"),
            delta(4, 0, 3, 3, "ly"),
            discarded(5, 0),
            delta(6, 0, 0, 6, "go"),
            delta(7, 0, 2, 6, "od"),
        ];
        let plan = plan(log, true);
        assert_eq!(written(&plan), [(7, 0, 7, "good")]);
        assert_eq!(removed(&plan), [(3, 0), (4, 0), (6, 0)]);
    }

    #[test]
    fn engine_marks_are_kept_only_while_a_job_can_continue() {
        let log = || [delta(3, 0, 0, 3, "a"), mark(3)];
        assert_eq!(removed(&plan(log(), false)), [(3, 1)]);
        assert_eq!(plan(log(), true), FoldPlan::default());
    }

    #[test]
    fn p8_an_oversized_step_folds_into_several_contiguous_deltas() {
        let part = "x".repeat(FOLDED_BYTES / 2);
        let half = part.len() as u64;
        let log = [delta(3, 0, 0, 3, &part), delta(4, 0, half, 3, &part), delta(5, 0, 2 * half, 3, "end")];
        let plan = plan(log, true);
        let shape: Vec<_> = written(&plan).iter().map(|(s, o, f, text)| (*s, *o, *f, text.len())).collect();
        assert_eq!(shape, [(4, 0, 4, FOLDED_BYTES), (5, FOLDED_BYTES as u64, 4, 3)]);
    }
}
