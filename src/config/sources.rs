//! The sources of a configuration: the file and the environment. Plain values, so that tests can set them.

use super::directories::state_home;
use super::error::ConfigError;
use super::expand::Variables;
use super::layers::{self, ModelKeys};
use super::validate::Config;
use std::io;
use std::path::{Path, PathBuf};

/// Names a configuration file; not a key.
const FILE_VARIABLE: &str = "NANOCLAW_CONFIG";
/// Sets the key `data_dir`.
const DATA_DIR_VARIABLE: &str = "NANOCLAW_DATA_DIR";
/// Where a file is searched if none is named.
const SEARCHED: [&str; 2] = ["config.yml", "/etc/nanoclaw/config.yml"];

/// The sources, from the weakest to the strongest.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file of `--config`; it must exist.
    pub file: Option<PathBuf>,
    /// Otherwise the first existing file of these.
    pub searched: Vec<PathBuf>,
    /// The environment.
    pub env: Variables,
    /// Settings of the command line, such as `("limits.body_bytes", "1000")`.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The sources of this process.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, searched: SEARCHED.map(PathBuf::from).to_vec(), env, flags }
    }

    /// The user's state directory; `None` without a home.
    pub fn state_home(&self) -> Option<PathBuf> {
        state_home(&self.env)
    }

    /// The file to read, if there is one.
    pub fn find_file(&self) -> Result<Option<PathBuf>, ConfigError> {
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

    /// Whether a searched file exists. A file that this user may not read is an error, because it may name
    /// another data directory and a second store would be created silently. It is no error if another
    /// source names the data directory.
    fn is_there(&self, path: &Path, exists: io::Result<bool>) -> Result<bool, ConfigError> {
        match exists {
            Ok(exists) => Ok(exists),
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

impl Config {
    /// Reads all layers and validates the result.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.find_file()?;
        let merged = layers::merge(file.as_deref(), &sources.env, &sources.flags, ModelKeys::Required)?;
        Self::check(merged, file, &sources.env)
    }

    /// Like `load`, without key files and without keys that contain variables: for commands that call no
    /// model. Only the service may have those keys.
    pub fn load_keyless(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.find_file()?;
        let mut merged = layers::merge(file.as_deref(), &sources.env, &sources.flags, ModelKeys::Omitted)?;
        for model in &mut merged.keys.models {
            model.api_key_file = None;
        }
        Self::check(merged, file, &sources.env)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_an_unreadable_config_file_is_an_error_unless_data_dir_is_set() {
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
