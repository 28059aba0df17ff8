//! Where a configuration comes from. Owns the search for the file and the one reading of the environment; everything is
//! a value, so that tests bring their own.

use super::error::ConfigError;
use super::expand::Variables;
use super::layer::{self, Keys};
use super::validate::Config;
use std::io;
use std::path::{Path, PathBuf};

/// Names a configuration file; not a key.
const FILE_VARIABLE: &str = "NANOCLAW_CONFIG";
/// The key `data_dir`, as the environment says it.
const DATA_DIR_VARIABLE: &str = "NANOCLAW_DATA_DIR";
/// Where a file is looked for when none is named.
const SEARCHED: [&str; 2] = ["config.yml", "/etc/nanoclaw/config.yml"];

/// What there is to read, from the weakest to the strongest.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file that `--config` names; it has to exist.
    pub file: Option<PathBuf>,
    /// Where a file may be otherwise; the first one that exists is read.
    pub searched: Vec<PathBuf>,
    /// The environment.
    pub env: Variables,
    /// Settings from the command line, `("limits.body_bytes", "1000")`.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The process's own: `--config`, its environment, and the flags that were given.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, searched: SEARCHED.map(PathBuf::from).to_vec(), env, flags }
    }

    /// Where this user's programs keep their state; none without a home.
    pub fn state_home(&self) -> Option<PathBuf> {
        state_home(&self.env)
    }

    /// The file to read, if there is one.
    pub(crate) fn found(&self) -> Result<Option<PathBuf>, ConfigError> {
        let named = self.file.clone().or_else(|| self.env.get(FILE_VARIABLE).map(PathBuf::from));
        if named.is_some() {
            return Ok(named);
        }
        for path in &self.searched {
            if self.is_there(path, path.try_exists())? {
                return Ok(Some(path.clone()));
            }
        }
        Ok(None)
    }

    /// Whether a file that was looked for is to be read. One behind a closed door may name another data directory than the
    /// default, and a second store would be made in silence; where a directory is named, there is no such danger.
    fn is_there(&self, path: &Path, found: io::Result<bool>) -> Result<bool, ConfigError> {
        match found {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.names_data_dir() => {
                Err(ConfigError::Denied { path: path.to_owned() })
            }
            Err(_) => Ok(false),
        }
    }

    fn names_data_dir(&self) -> bool {
        self.env.contains_key(DATA_DIR_VARIABLE) || self.flags.iter().any(|(key, _)| key == "data_dir")
    }
}

/// `$XDG_STATE_HOME`, else `~/.local/state`; relative ones count as not set (XDG base directory specification).
pub(super) fn state_home(env: &Variables) -> Option<PathBuf> {
    let absolute = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

impl Config {
    /// Reads all layers and checks the whole.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.found()?;
        let raw = layer::merge(file.as_deref(), &sources.env, &sources.flags, Keys::Wanted)?;
        Self::check(raw, file, &sources.env)
    }

    /// The same without the models' key files and without the variables in their keys: for commands that ask no model, and
    /// may not be allowed to read them. What a service gets as a credential or in its environment is the service's alone.
    pub fn load_keyless(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.found()?;
        let mut raw = layer::merge(file.as_deref(), &sources.env, &sources.flags, Keys::Unwanted)?;
        for model in &mut raw.models {
            model.api_key_file = None;
        }
        Self::check(raw, file, &sources.env)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_a_file_behind_a_closed_door_is_no_file_only_where_the_data_directory_is_named() {
        let path = Path::new("/etc/nanoclaw/config.yml");
        let closed = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let mut sources =
            Sources { file: None, searched: Vec::new(), env: Variables::new(), flags: Vec::new() };
        let refused = sources.is_there(path, closed()).expect_err("a second store in silence");
        assert_eq!(
            refused.to_string(),
            "cannot read configuration '/etc/nanoclaw/config.yml': permission denied"
        );
        let none = sources.is_there(path, Err(io::Error::from(io::ErrorKind::NotADirectory)));
        assert!(matches!(none, Ok(false)), "what cannot be there is not there");
        sources.flags.push(("data_dir".to_owned(), "/d".to_owned()));
        assert!(matches!(sources.is_there(path, closed()), Ok(false)));
    }
}
