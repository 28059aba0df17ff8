//! Projects: a name, a directory, an owner.

use super::id::{ProjectId, UserId};
use serde::{Deserialize, Serialize};

/// Name of the server's own directory; reserved in projects.
pub const OWN_NAME: &str = ".nanoclaw";
/// Maximum length of a description, characters.
pub const DESCRIPTION_CHARS: usize = 4_000;
/// Maximum length of a name, characters.
const NAME_CHARS: usize = 100;
/// Maximum length of a name, bytes. File systems allow 255, and a number may be appended.
const NAME_BYTES: usize = 240;

/// A project's name, and its directory's name: no separator, no control character, not only dots.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectName(String);

impl ProjectName {
    /// The name, trimmed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProjectName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let has_valid_chars = text.chars().all(|c| !c.is_control() && !matches!(c, '/' | '\\'));
        let fits = (1..=NAME_CHARS).contains(&text.chars().count()) && text.len() <= NAME_BYTES;
        if has_valid_chars && fits && !text.starts_with('.') {
            Ok(Self(text))
        } else {
            Err("must be 1 to 100 characters without '/' and '\\', and not begin with a dot")
        }
    }
}

impl From<ProjectName> for String {
    fn from(name: ProjectName) -> Self {
        name.0
    }
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Id.
    pub id: ProjectId,
    /// Owner.
    pub user: UserId,
    /// Name, unique for its owner.
    pub name: ProjectName,
    /// Directory below that of the user: the first name, even after a rename.
    pub directory: String,
    /// The owner's description.
    pub description: String,
    /// Creation time, unix milliseconds.
    pub created_at_ms: u64,
    /// Last change, unix milliseconds.
    pub updated_at_ms: u64,
}

impl Project {
    /// Path as clients see it: `user_<id>/<directory>`. The name of the user's directory has another part.
    pub fn path(&self) -> String {
        format!("user_{}/{}", self.user.0, self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_name_is_a_single_safe_directory_name() {
        for good in ["app", "我的 项目", "a.b", "x y"] {
            assert!(ProjectName::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in
            ["", " ", ".", "..", "...", "../x", "a/b", "a\\b", "a\0b", ".git", "a\nb", &"x".repeat(101)]
        {
            assert!(ProjectName::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
