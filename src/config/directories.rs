//! Default directories, as systemd and the XDG base directory specification name them.

use super::expand::Variables;
use std::path::PathBuf;

/// The first of these that is set: `$STATE_DIRECTORY` (systemd), `$XDG_STATE_HOME/nanoclaw`,
/// `~/.local/state/nanoclaw`.
pub(super) fn default_data_dir(env: &Variables) -> Option<PathBuf> {
    let systemd =
        env.get("STATE_DIRECTORY").and_then(|all| all.split(':').next()).filter(|dir| !dir.is_empty());
    systemd.map(PathBuf::from).or_else(|| state_home(env).map(|dir| dir.join("nanoclaw")))
}

/// `$XDG_STATE_HOME`, else `~/.local/state`. Relative values count as not set (XDG base directory
/// specification).
pub(super) fn state_home(env: &Variables) -> Option<PathBuf> {
    let absolute = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}
