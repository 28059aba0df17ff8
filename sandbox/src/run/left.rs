//! Runs and sessions that are over for their callers while processes of them are left: killed, but waiting
//! for a disk.

use std::sync::{Arc, Weak};

use super::child::RunChild;
use crate::scratch::{ScratchDir, ScratchRemover, TreeRemoval};

/// Keeps the place of a run or session as used until its processes are gone. Then its private directory is
/// removed: nobody waits meanwhile for the disk that it may lie on.
pub(crate) fn keep_until_gone(
    child: RunChild,
    place: impl Send + 'static,
    own_dir: Option<ScratchDir>,
    remover: &Arc<ScratchRemover>,
) {
    let tree = own_dir.map(ScratchDir::keep);
    // A sandbox that is dropped does not wait for this thread.
    let remover = Arc::downgrade(remover);
    let wait = move || {
        if child.wait_until_gone() {
            remove(tree, &remover);
        }
        drop(place);
    };
    // Without a thread the place is free at once, and a later start removes the directory.
    std::thread::Builder::new().name("sandbox-left".to_owned()).spawn(wait).ok();
}

fn remove(tree: Option<TreeRemoval>, remover: &Weak<ScratchRemover>) {
    if let (Some(tree), Some(remover)) = (tree, remover.upgrade()) {
        remover.take(tree);
    }
}
