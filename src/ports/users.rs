//! Accounts and API tokens, durably. Owns the trait and the values that cross it; refuses passwords and keys: only their
//! hashes come here.

use super::store::StoreError;
use super::ticket::Ticket;
use crate::domain::account::{Account, ApiToken, Email, PasswordHash, Quota, Role, Username};
use crate::domain::id::{TokenId, UserId};

/// A SHA-256 digest of a secret text.
pub type SecretDigest = [u8; 32];

/// Why nobody needs to ask, or what has to be shown, to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationGate {
    /// Everybody may.
    Open,
    /// Who has this invite, which is used up by it. The first account needs none.
    Invited(Option<SecretDigest>),
    /// Only the first account.
    FirstOnly,
    /// An administrator does it.
    ByAdmin,
}

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Unique, whatever the case.
    pub username: Username,
    /// Unique, whatever the case.
    pub email: Option<Email>,
    /// What its password is checked against.
    pub password: PasswordHash,
    /// What it may do; the first account that has a password is an administrator in any case.
    pub role: Role,
    /// Why it may be made.
    pub admission: RegistrationGate,
    /// Unix milliseconds.
    pub created_at_ms: u64,
}

/// What is to change; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// The address; `Some(None)` takes it away.
    pub email: Option<Option<Email>>,
    /// The picture; `Some(None)` takes it away.
    pub avatar: Option<Option<String>>,
    /// The password; the generation rises with it.
    pub password: Option<PasswordHash>,
    /// The role. The last active administrator keeps theirs: [`StoreError::LastAdmin`].
    pub role: Option<Role>,
    /// Whether it may come in. The last active administrator may. The generation rises when it no longer may.
    pub is_active: Option<bool>,
    /// What it may use.
    pub quota: Option<Quota>,
    /// A login, unix milliseconds.
    pub logged_in_at_ms: Option<u64>,
}

/// A page of accounts, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountPage {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// Whether more would follow.
    pub has_more: bool,
}

/// A token to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// What is kept.
    pub token: ApiToken,
    /// What the key is found by.
    pub digest: SecretDigest,
}

/// An invite to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInvite {
    /// What the code is found by.
    pub digest: SecretDigest,
    /// Unix milliseconds.
    pub expires_at_ms: u64,
}

/// Accounts. The account [`UserId::SINGLE`], `default`, is always there; it is an administrator, and has no password until it
/// is given one. Numbers rise and are never given out twice.
pub trait Users: Send + Sync {
    /// Makes an account. [`StoreError::NameTaken`], [`StoreError::EmailTaken`], [`StoreError::NotInvited`],
    /// [`StoreError::RegistrationClosed`], [`StoreError::AccountsFull`].
    fn register(&self, new: NewAccount) -> Ticket<Account>;
    /// Changes an account; resolves to it as it then is, `None` when there is none.
    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>>;
    /// Keeps a token, unless its owner has `most` of them already ([`StoreError::TokensFull`]).
    fn store_token(&self, new: NewToken, most: u64) -> Ticket<()>;
    /// Forgets a token. Whether the user had it.
    fn revoke_token(&self, user: UserId, token: TokenId) -> Ticket<bool>;
    /// Keeps an invite, and forgets those that have expired.
    fn store_invite(&self, invite: NewInvite) -> Ticket<()>;

    /// Whether nobody has a password yet, so that whoever registers is the administrator. An account that cannot be read counts
    /// as one with a password.
    fn has_no_accounts(&self) -> Result<bool, StoreError>;
    /// The account.
    fn account(&self, user: UserId) -> Result<Option<Account>, StoreError>;
    /// The account of this name, whatever the case.
    fn account_named(&self, username: &str) -> Result<Option<Account>, StoreError>;
    /// A page of accounts behind this one, by number.
    fn accounts(&self, after: Option<UserId>, limit: usize) -> Result<AccountPage, StoreError>;
    /// The token whose key has this digest; expired ones as well.
    fn token(&self, digest: &SecretDigest) -> Result<Option<ApiToken>, StoreError>;
    /// All tokens of a user, oldest first.
    fn tokens(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError>;
}
