//! Where models' errands go: joins jobs and schedules of the store for the tools.

use crate::ports::Errands;

/// The store's.
pub(super) struct StoredErrands {}

impl Errands for StoredErrands {}
