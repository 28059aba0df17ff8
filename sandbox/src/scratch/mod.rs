//! Private directories of runs and sessions, and their removal.

mod dir;
mod remove;
mod remover;

pub(crate) use dir::{ScratchDir, check_workdir, sweep};
pub(crate) use remove::TreeRemoval;
#[cfg(test)]
pub(crate) use remove::remove_tree;
pub(crate) use remover::ScratchRemover;
