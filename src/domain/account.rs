//! Accounts: roles, names, quotas and API tokens. Password checks and session signing are in `http::auth`.

use super::id::{TokenId, UserId};
use super::script::mixes_scripts;
use serde::{Deserialize, Serialize};
use std::fmt;
use unicode_normalization::UnicodeNormalization;

/// Whether the server has accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// One user, `default`, without a password: every client is that user.
    #[default]
    Single,
    /// Accounts with sessions and API tokens.
    Multi,
}

impl AuthMode {
    /// Name in the API and in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Multi => "multi",
        }
    }
}

/// Who may register an account. The first account needs the set-up invite in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// Anyone may register.
    Open,
    /// Only administrators create accounts.
    Closed,
    /// Holders of an invite.
    #[default]
    Invite,
}

/// What an account may do beyond its own data.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May see and change accounts, invites and all statistics.
    Admin,
    /// No further rights.
    #[default]
    User,
}

/// A login name: 2 to 50 characters, letters and digits of any script and `. _ - @ +`. A name that was stored
/// before names were normalised stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Username(String);

impl Username {
    /// The name as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name folded to lower case. Accounts are found by it, and it is unique.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl TryFrom<String> for Username {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let has_valid_chars = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
        if (2..=50).contains(&text.chars().count()) && text.chars().all(has_valid_chars) {
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

/// The name of a new account: in Unicode's form NFKC and of one script, so that no two names look alike
/// because of full-width letters or of another alphabet's.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Username"))]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NewUsername(#[cfg_attr(test, schemars(with = "String"))] pub Username);

impl TryFrom<String> for NewUsername {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let name = Username::try_from(text.trim().nfkc().take(NAME_CHARS_READ).collect::<String>())?;
        if mixes_scripts(name.as_str()) {
            return Err(
                "mixes alphabets: use letters of one, or Latin with Chinese, Japanese or Korean ones",
            );
        }
        Ok(Self(name))
    }
}

/// More characters than a name may have; the rest of a longer text need not be normalised.
const NAME_CHARS_READ: usize = 64;

/// The form in which a name is compared: NFKC and lower case.
pub fn lookup_name(name: &str) -> String {
    name.trim().nfkc().collect::<String>().to_lowercase()
}

/// An e-mail address, checked only for `something@something`; at most 120 characters.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Email(String);

impl Email {
    /// The address as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address folded to lower case. Accounts are found by it, and it is unique.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl TryFrom<String> for Email {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim().to_owned();
        let has_both_parts =
            text.rsplit_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
        let has_valid_chars = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
        if has_both_parts && has_valid_chars && text.chars().count() <= 120 {
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

/// A stored password: a PHC string (argon2id). Never shown or logged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// A PHC string.
    pub fn new(phc: String) -> Self {
        Self(phc)
    }

    /// The PHC string, for verification only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"***\"")
    }
}

/// Quotas of an account; `None` means no limit beyond the server's own.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Model tokens a day (UTC).
    pub tokens_per_day: Option<u64>,
    /// Cost of model calls a day (UTC), millionths of the currency of the prices. Models without a price cost
    /// nothing.
    pub cost_micros_per_day: Option<u64>,
    /// Unfinished jobs.
    pub unfinished_jobs: Option<u64>,
    /// Bytes in the files of all projects.
    pub project_bytes: Option<u64>,
    /// Bytes of jobs, batches, schedules and conversations in the store.
    pub stored_bytes: Option<u64>,
}

/// A quota that work may exhaust; its name is the field of [`Quota`].
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaKind {
    /// Model tokens a day.
    TokensPerDay,
    /// Cost of model calls a day.
    CostMicrosPerDay,
    /// Unfinished jobs.
    UnfinishedJobs,
    /// Bytes in the store.
    StoredBytes,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Numeric id.
    pub id: UserId,
    /// Login name.
    pub username: Username,
    /// E-mail address.
    pub email: Option<Email>,
    /// URL of a picture.
    pub avatar: Option<String>,
    /// Role.
    pub role: Role,
    /// A disabled account cannot log in; its data stays.
    pub is_active: bool,
    /// Creation time, unix milliseconds.
    pub created_at_ms: u64,
    /// Last login, unix milliseconds.
    pub last_login_at_ms: Option<u64>,
    /// Password hash; without one, login is impossible.
    pub password: Option<PasswordHash>,
    /// Rises with every password change, which ends all earlier sessions.
    pub generation: u32,
    /// Quotas.
    pub quota: Quota,
}

/// What an API token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenScopes {
    /// Read: `GET` and `HEAD`.
    pub read: bool,
    /// Write the owner's data.
    pub write: bool,
    /// Use the administrator's routes, if the owner is an administrator.
    pub admin: bool,
}

impl TokenScopes {
    /// The scopes of a session: everything that its account may do.
    pub const ALL: Self = Self { read: true, write: true, admin: true };
}

/// A long-lived API key for scripts. The key itself is shown once and never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// Id in lists.
    pub id: TokenId,
    /// Owner.
    pub user: UserId,
    /// The owner's description.
    pub name: String,
    /// Scopes.
    pub scopes: TokenScopes,
    /// Creation time, unix milliseconds.
    pub created_at_ms: u64,
    /// Expiry, unix milliseconds; `None` for never.
    pub expires_at_ms: Option<u64>,
    /// Last characters of the key, to distinguish keys.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usernames_are_trimmed_and_compared_case_insensitively() {
        let name = Username::try_from(" Ann ".to_owned()).expect("a name");
        assert_eq!((name.as_str(), name.key().as_str()), ("Ann", "ann"));
        assert!(Username::try_from("用户".to_owned()).is_ok());
        for bad in ["", "a", "a b", "a/b", "a\n", "../..x/", &"x".repeat(51)] {
            assert!(Username::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn p9_new_usernames_are_normalised_and_of_one_script() {
        let new = |text: &str| NewUsername::try_from(text.to_owned()).map(|name| String::from(name.0));
        for (given, stored) in [
            ("ann", "ann"),
            ("Ａｎｎ", "Ann"),
            ("ﬁn\u{2460}", "fin1"),
            ("Å\u{73}e", "Åse"),
            ("A\u{30a}se", "Åse"),
            ("иван_7", "иван_7"),
            ("用户", "用户"),
            ("wang王", "wang王"),
            ("さくら桜", "さくら桜"),
        ] {
            assert_eq!(new(given).as_deref(), Ok(stored), "{given}");
        }
        // Cyrillic and Greek letters that look like Latin ones.
        for bad in ["\u{430}dmin", "adm\u{456}n", "\u{3bf}tto", "r\u{3bf}\u{43e}t", "иван王", "ann\u{6f1}"]
        {
            assert!(new(bad).is_err_and(|rule| rule.contains("mixes alphabets")), "{bad}");
        }
        assert_eq!(lookup_name(" ＡＮＮ "), "ann");
        let old: Username = serde_json::from_str("\"\u{430}dmin\"").expect("a stored name stays readable");
        assert_eq!(old.key(), "\u{430}dmin");
    }

    #[test]
    fn an_email_needs_a_local_part_and_a_domain() {
        assert!(Email::try_from("ann@example.org".to_owned()).is_ok());
        for bad in ["", "@", "a@", "@b", "a b@c", "ann"] {
            assert!(Email::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn p9_debug_output_hides_the_password_hash() {
        assert_eq!(format!("{:?}", PasswordHash::new("$argon2id$x".into())), "\"***\"");
    }
}
