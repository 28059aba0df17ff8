//! Whose turn it is within a batch. Owns the order that files impose: what writes them waits for whatever used them before it
//! in the batch, what reads them for whatever may have written them; programs run beside each other. Refuses to run anything.

use crate::domain::tool::FileAccess;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Done,
}

/// The turns of a batch, handed out to its threads.
pub(super) struct Waves {
    uses: Vec<FileAccess>,
    stages: Mutex<Vec<Stage>>,
    moved: Condvar,
}

impl Waves {
    /// For tasks that use files like this.
    pub(super) fn new(uses: Vec<FileAccess>) -> Self {
        let stages = Mutex::new(vec![Stage::Waiting; uses.len()]);
        Self { uses, stages, moved: Condvar::new() }
    }

    /// The first task that may begin; waits while there are only tasks that may not. `None`: all have begun.
    pub(super) fn next(&self) -> Option<Turn<'_>> {
        let mut stages = self.stages();
        loop {
            let waiting = || (0..stages.len()).filter(|at| stages.get(*at) == Some(&Stage::Waiting));
            waiting().next()?;
            if let Some(at) = waiting().find(|at| self.may_begin(*at, &stages)) {
                set(&mut stages, at, Stage::Running);
                return Some(Turn { waves: self, at });
            }
            stages = self.moved.wait(stages).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn may_begin(&self, at: usize, stages: &[Stage]) -> bool {
        let waits_for = |earlier: FileAccess| match self.uses.get(at) {
            Some(FileAccess::Writes) => earlier != FileAccess::None,
            Some(FileAccess::Reads) => matches!(earlier, FileAccess::Writes | FileAccess::Runs),
            // Programs run beside each other: what depends on what among them is the model's to say.
            Some(FileAccess::Runs) => matches!(earlier, FileAccess::Reads | FileAccess::Writes),
            Some(FileAccess::None) | None => false,
        };
        let mut before = self.uses.iter().zip(stages).take(at);
        before.all(|(earlier, stage)| *stage == Stage::Done || !waits_for(*earlier))
    }

    fn stages(&self) -> MutexGuard<'_, Vec<Stage>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(stages: &mut [Stage], at: usize, to: Stage) {
    if let Some(stage) = stages.get_mut(at) {
        *stage = to;
    }
}

/// A task's turn; it ends when this is dropped, by a panic as well: others may wait for it.
pub(super) struct Turn<'a> {
    waves: &'a Waves,
    at: usize,
}

impl Turn<'_> {
    /// Which task, counted from 0.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        set(&mut self.waves.stages(), self.at, Stage::Done);
        self.waves.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileAccess::{None as Free, Reads, Runs, Writes};

    /// The turns that can be had at once while none of them ends.
    fn at_once(uses: &[FileAccess], done: usize) -> Vec<usize> {
        let waves = Waves::new(uses.to_vec());
        for at in 0..done {
            set(&mut waves.stages(), at, Stage::Done);
        }
        let stages = waves.stages();
        (done..uses.len()).filter(|at| waves.may_begin(*at, &stages)).collect()
    }

    #[test]
    fn writes_wait_for_reads_and_writes_and_reads_for_writes() {
        assert_eq!(at_once(&[Writes, Reads, Writes, Reads], 0), [0]);
        assert_eq!(at_once(&[Writes, Reads, Writes, Reads], 1), [1]);
        assert_eq!(at_once(&[Writes, Reads, Writes, Reads], 3), [3]);
        assert_eq!(at_once(&[Reads, Reads, Writes], 0), [0, 1]);
        assert_eq!(at_once(&[Reads, Writes, Writes], 1), [1]);
        assert_eq!(
            at_once(&[Writes, Free, Runs, Reads, Runs], 0),
            [0, 1],
            "a program sees what was written before it"
        );
        assert_eq!(at_once(&[Writes, Free, Runs, Reads, Runs], 1), [1, 2]);
        assert_eq!(
            at_once(&[Runs, Free, Runs, Writes, Reads], 0),
            [0, 1, 2],
            "programs run beside each other"
        );
        assert_eq!(at_once(&[Runs, Reads, Runs], 1), [1], "what a program left is read before the next one");
    }

    #[test]
    fn turns_come_in_order_and_end_when_they_are_dropped() {
        let waves = Waves::new(vec![Writes, Reads, Free]);
        let first = waves.next().expect("a turn");
        let free = waves.next().expect("a turn");
        assert_eq!((first.at(), free.at()), (0, 2));
        drop(first);
        assert_eq!(waves.next().map(|turn| turn.at()), Some(1));
        assert!(waves.next().is_none());
    }
}
