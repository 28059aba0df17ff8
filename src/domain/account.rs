//! Accounts: who may come in, as what, and how much they may use. Owns the rules for names and addresses; refuses to know how a
//! password is checked or a session is signed.

use super::id::{TokenId, UserId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether there are accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// One user, `default`, who needs no password: whoever reaches the server is that user.
    #[default]
    Single,
    /// Accounts, sessions and API tokens.
    Multi,
}

impl AuthMode {
    /// The word that clients and configurations know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multi => "multi",
        }
    }
}

/// Who may make an account for themselves. The first one may always be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// Everybody.
    #[default]
    Open,
    /// Nobody.
    Closed,
    /// Whoever has an invite.
    Invite,
}

/// What somebody may do beyond their own things.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Also sees and changes accounts, invites and everybody's statistics.
    Admin,
    /// Nothing.
    #[default]
    User,
}

/// A name to log in with: 2 to 50 characters, letters and digits of any script and `. _ - @ +`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Username(String);

impl Username {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What two names that only differ in case share: by it an account is found, and it is unique.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl TryFrom<String> for Username {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
        if (2..=50).contains(&text.chars().count()) && text.chars().all(plain) {
            Ok(Self(text))
        } else {
            Err("must be 2 to 50 letters, digits, '.', '_', '-', '@' or '+'")
        }
    }
}

impl From<Username> for String {
    fn from(name: Username) -> Self {
        name.0
    }
}

/// An e-mail address, as far as a server can tell that reaches none: something, `@`, something; at most 120 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Email(String);

impl Email {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// By it an account is found, and it is unique.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl TryFrom<String> for Email {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let halves = text.rsplit_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
        let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
        if halves && plain && text.chars().count() <= 120 {
            Ok(Self(text))
        } else {
            Err("must be an address as in ann@example.org, at most 120 characters")
        }
    }
}

impl From<Email> for String {
    fn from(email: Email) -> Self {
        email.0
    }
}

/// A password as it is stored: a PHC string (argon2id). Never shown, not even to the log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// A PHC string.
    pub fn new(phc: String) -> Self {
        Self(phc)
    }

    /// The PHC string, for checking a password against and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"***\"")
    }
}

/// What an account may use; `None`: as much as the server's limits allow.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Tokens of models in a day (UTC).
    pub tokens_per_day: Option<u64>,
    /// Jobs that have not ended.
    pub unfinished_jobs: Option<u64>,
    /// Files of all projects together, bytes.
    pub project_bytes: Option<u64>,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its number.
    pub id: UserId,
    /// What is logged in with.
    pub username: Username,
    /// Where its owner can be reached.
    pub email: Option<Email>,
    /// A picture's address, as the front end uses it.
    pub avatar: Option<String>,
    /// What it may do.
    pub role: Role,
    /// A disabled account cannot come in by any way; what it has stays.
    pub is_active: bool,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// Unix milliseconds.
    pub last_login_at_ms: Option<u64>,
    /// What a password is checked against; nobody logs in without one.
    pub password: Option<PasswordHash>,
    /// Rises with every change of the password: sessions that were opened before are over.
    pub generation: u32,
    /// What it may use.
    pub quota: Quota,
}

/// What an API token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenScopes {
    /// Reading: `GET` and `HEAD`.
    pub read: bool,
    /// Everything else of the owner's.
    pub write: bool,
    /// What only admins may do, if the owner is one.
    pub admin: bool,
}

impl TokenScopes {
    /// What a session may: everything that its account may.
    pub const ALL: Self = Self { read: true, write: true, admin: true };
}

/// A long-lived key for scripts. The key itself is shown once and not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// Names it in lists.
    pub id: TokenId,
    /// Whose it is.
    pub user: UserId,
    /// What it is for, in its owner's words.
    pub name: String,
    /// What it may be used for.
    pub scopes: TokenScopes,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// Unix milliseconds; never when absent.
    pub expires_at_ms: Option<u64>,
    /// The last characters of the key, to tell keys apart.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        let name = Username::try_from(" Ann ".to_owned()).expect("a name");
        assert_eq!((name.as_str(), name.key().as_str()), ("Ann", "ann"));
        assert!(Username::try_from("用户".to_owned()).is_ok());
        for bad in ["", "a", "a b", "a/b", "a\n", "../..x/", &"x".repeat(51)] {
            assert!(Username::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_have_two_halves() {
        assert!(Email::try_from("ann@example.org".to_owned()).is_ok());
        for bad in ["", "@", "a@", "@b", "a b@c", "ann"] {
            assert!(Email::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn p9_a_password_is_not_shown_for_debugging() {
        assert_eq!(format!("{:?}", PasswordHash::new("$argon2id$x".into())), "\"***\"");
    }
}
