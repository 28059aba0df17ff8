//! Projects: a name, a directory, an owner. Owns the rules for names; refuses to touch a directory.

use super::id::{ProjectId, UserId};
use serde::{Deserialize, Serialize};

/// The server's own directory name: no project and no file of one is called so.
pub const OWN_NAME: &str = ".nanoclaw";
/// The longest description, characters.
pub const DESCRIPTION_CHARS: usize = 4_000;
/// The longest name, characters.
const NAME_CHARS: usize = 100;
/// The longest name, bytes: file systems take 255, and a number may be put behind it.
const NAME_BYTES: usize = 240;

/// A project's name, which is its directory's name as well: no separator, no control character, not only dots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectName(String);

impl ProjectName {
    /// As it was given, trimmed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProjectName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let plain = text.chars().all(|c| !c.is_control() && !matches!(c, '/' | '\\'));
        let fits = (1..=NAME_CHARS).contains(&text.chars().count()) && text.len() <= NAME_BYTES;
        if plain && fits && !text.starts_with('.') {
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
    /// Its id.
    pub id: ProjectId,
    /// Whose it is.
    pub user: UserId,
    /// Unique among its owner's.
    pub name: ProjectName,
    /// The directory's name below `user_<id>/`: the name at first, which may have changed since.
    pub directory: String,
    /// In its owner's words.
    pub description: String,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// Unix milliseconds.
    pub updated_at_ms: u64,
}

impl Project {
    /// Where it lies below the workspace's root, as clients are told: `user_<id>/<directory>`.
    pub fn path(&self) -> String {
        format!("user_{}/{}", self.user.0, self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_one_directory() {
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
