//! Files of projects for tools: joins the rows of projects with their directories.

use crate::ports::ProjectFiles;

/// The store's projects, and the host's files.
pub(super) struct StoredFiles {}

impl ProjectFiles for StoredFiles {}
