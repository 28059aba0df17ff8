//! Orders the calls of a batch by their use of files: a write waits for every earlier use, a read for every
//! earlier write or program. Programs run beside each other.

use crate::domain::tool::FileAccess;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskStage {
    Waiting,
    Running,
    Done,
}

/// Hands out the tasks of a batch to its threads.
pub(super) struct FileOrdering {
    uses: Vec<FileAccess>,
    stages: Mutex<Vec<TaskStage>>,
    changed: Condvar,
}

impl FileOrdering {
    pub(super) fn new(uses: Vec<FileAccess>) -> Self {
        let stages = Mutex::new(vec![TaskStage::Waiting; uses.len()]);
        Self { uses, stages, changed: Condvar::new() }
    }

    /// Waits for the first task that may start. `None`: all have started.
    pub(super) fn next_turn(&self) -> Option<TaskTurn<'_>> {
        let mut stages = self.stages();
        loop {
            let waiting = || (0..stages.len()).filter(|at| stages.get(*at) == Some(&TaskStage::Waiting));
            waiting().next()?;
            if let Some(at) = waiting().find(|at| self.may_start(*at, &stages)) {
                set(&mut stages, at, TaskStage::Running);
                return Some(TaskTurn { ordering: self, at });
            }
            stages = self.changed.wait(stages).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn may_start(&self, at: usize, stages: &[TaskStage]) -> bool {
        let must_wait_for = |earlier: FileAccess| match self.uses.get(at) {
            Some(FileAccess::Writes) => earlier != FileAccess::None,
            Some(FileAccess::Reads) => matches!(earlier, FileAccess::Writes | FileAccess::Runs),
            // Programs run in parallel: the model must order those that depend on each other.
            Some(FileAccess::Runs) => matches!(earlier, FileAccess::Reads | FileAccess::Writes),
            Some(FileAccess::None) | None => false,
        };
        let mut before = self.uses.iter().zip(stages).take(at);
        before.all(|(earlier, stage)| *stage == TaskStage::Done || !must_wait_for(*earlier))
    }

    fn stages(&self) -> MutexGuard<'_, Vec<TaskStage>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(stages: &mut [TaskStage], at: usize, to: TaskStage) {
    if let Some(stage) = stages.get_mut(at) {
        *stage = to;
    }
}

/// A running task. It ends when this is dropped, also by a panic.
pub(super) struct TaskTurn<'a> {
    ordering: &'a FileOrdering,
    at: usize,
}

impl TaskTurn<'_> {
    /// Which task, counted from 0.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

impl Drop for TaskTurn<'_> {
    fn drop(&mut self) {
        set(&mut self.ordering.stages(), self.at, TaskStage::Done);
        self.ordering.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileAccess::{None as Free, Reads, Runs, Writes};

    /// The tasks that may run in parallel after the first `done` tasks have ended.
    fn parallel_tasks(uses: &[FileAccess], done: usize) -> Vec<usize> {
        let ordering = FileOrdering::new(uses.to_vec());
        for at in 0..done {
            set(&mut ordering.stages(), at, TaskStage::Done);
        }
        let stages = ordering.stages();
        (done..uses.len()).filter(|at| ordering.may_start(*at, &stages)).collect()
    }

    #[test]
    fn writes_wait_for_earlier_accesses_and_reads_for_earlier_writes() {
        assert_eq!(parallel_tasks(&[Writes, Reads, Writes, Reads], 0), [0]);
        assert_eq!(parallel_tasks(&[Writes, Reads, Writes, Reads], 1), [1]);
        assert_eq!(parallel_tasks(&[Writes, Reads, Writes, Reads], 3), [3]);
        assert_eq!(parallel_tasks(&[Reads, Reads, Writes], 0), [0, 1]);
        assert_eq!(parallel_tasks(&[Reads, Writes, Writes], 1), [1]);
        assert_eq!(
            parallel_tasks(&[Writes, Free, Runs, Reads, Runs], 0),
            [0, 1],
            "a program sees what was written before it"
        );
        assert_eq!(parallel_tasks(&[Writes, Free, Runs, Reads, Runs], 1), [1, 2]);
        assert_eq!(
            parallel_tasks(&[Runs, Free, Runs, Writes, Reads], 0),
            [0, 1, 2],
            "programs run beside each other"
        );
        assert_eq!(
            parallel_tasks(&[Runs, Reads, Runs], 1),
            [1],
            "what a program left is read before the next one"
        );
    }

    #[test]
    fn file_turns_are_given_in_order_and_end_when_dropped() {
        let ordering = FileOrdering::new(vec![Writes, Reads, Free]);
        let first = ordering.next_turn().expect("a turn");
        let free = ordering.next_turn().expect("a turn");
        assert_eq!((first.at(), free.at()), (0, 2));
        drop(first);
        assert_eq!(ordering.next_turn().map(|turn| turn.at()), Some(1));
        assert!(ordering.next_turn().is_none());
    }
}
