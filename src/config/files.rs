//! `files:` of the configuration.

use serde::{Deserialize, Serialize};

/// What the operator says about files of projects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileOptions {
    /// Tools may touch, list and search names that begin with a dot.
    pub show_hidden: bool,
}
