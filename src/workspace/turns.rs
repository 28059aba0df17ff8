//! Turns: changes that read a file before they write it go one after the other within a project. Owns who is next; refuses
//! to bind commands of jobs, which write as they like.

use crate::domain::id::ProjectId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The projects in which somebody changes something.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<ProjectId, Weak<Mutex<()>>>>);

impl Turns {
    /// Works as soon as nobody else does in this project.
    pub(super) fn take<T>(&self, id: ProjectId, work: impl FnOnce() -> T) -> T {
        let turn = self.of(id);
        let _held = turn.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    fn of(&self, id: ProjectId) -> Arc<Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turn| turn.strong_count() > 0);
        let turn = all.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(id, Arc::downgrade(&turn));
        turn
    }
}
