//! Accounts and API tokens. Only hashes of passwords and keys cross this port.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::account::{Account, ApiToken, Email, PasswordHash, Quota, Role, Username};
use crate::domain::id::{InviteId, TokenId, UserId};

/// SHA-256 digest of a secret text.
pub type SecretDigest = [u8; 32];

/// Why an account, token or invite was not stored. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Another account has the name (HTTP: 409).
    #[error("the name is taken")]
    NameTaken,
    /// Another account has the address (HTTP: 409).
    #[error("the email address is taken")]
    EmailTaken,
    /// Registration needs an invite, and this one is missing, used or expired (HTTP: 403).
    #[error("registration needs an invite that has not been used; ask an administrator for one")]
    NotInvited,
    /// The first account of a server that strangers reach needs the invite of the start (HTTP: 403).
    #[error(
        "the first account is the administrator's and needs the invite that the server printed at its start; send \
         it as 'invite', or run 'nanoclaw user add NAME' on the server"
    )]
    SetupInviteMissing,
    /// Registration is closed (HTTP: 403).
    #[error("registration is closed; ask an administrator for an account")]
    RegistrationClosed,
    /// No active administrator would be left (HTTP: 409).
    #[error("this is the last active administrator")]
    LastAdmin,
    /// `limits.accounts` accounts are stored already (HTTP: 429).
    #[error("there are {limit} accounts already (limits.accounts); an administrator has to raise the bound")]
    AccountsFull {
        /// The limit.
        limit: u64,
    },
    /// The user has `limits.tokens` API tokens already (HTTP: 429).
    #[error("there are {limit} tokens already (limits.tokens); revoke one first")]
    TokensFull {
        /// The limit.
        limit: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The permission to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationGate {
    /// Registration is open.
    Open,
    /// An invite, which registration uses up. The first account needs none.
    Invited(Option<SecretDigest>),
    /// An invite, which registration uses up, also for the first account.
    Setup(SecretDigest),
    /// Only the first account may register.
    FirstOnly,
    /// An administrator creates the account.
    ByAdmin,
}

/// An account to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Unique, ignoring case.
    pub username: Username,
    /// Unique, ignoring case.
    pub email: Option<Email>,
    /// Hash of the password.
    pub password: PasswordHash,
    /// The role. The first account with a password is an administrator in any case.
    pub role: Role,
    /// The permission to register.
    pub admission: RegistrationGate,
    /// Unix milliseconds.
    pub created_at_ms: u64,
}

/// Changes of an account; `None` keeps the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// E-mail address; `Some(None)` removes it.
    pub email: Option<Option<Email>>,
    /// Picture; `Some(None)` removes it.
    pub avatar: Option<Option<String>>,
    /// Password hash. A change raises the generation, which ends all sessions.
    pub password: Option<PasswordHash>,
    /// Role. Fails with [`AccountError::LastAdmin`] for the last active administrator.
    pub role: Option<Role>,
    /// Whether the account may log in. Fails with [`AccountError::LastAdmin`] for the last active
    /// administrator. Disabling raises the generation.
    pub is_active: Option<bool>,
    /// Quotas.
    pub quota: Option<Quota>,
    /// Time of a login, unix milliseconds.
    pub logged_in_at_ms: Option<u64>,
    /// Raises the generation, which ends all sessions.
    pub ends_sessions: bool,
}

/// A page of accounts, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountPage {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// Whether more follow.
    pub has_more: bool,
}

/// An API token to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The token without its key.
    pub token: ApiToken,
    /// Digest of the key.
    pub digest: SecretDigest,
}

/// An invite to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInvite {
    /// Digest of the invite code.
    pub digest: SecretDigest,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// Unix milliseconds.
    pub expires_at_ms: u64,
    /// The administrator; `None` for an invite of the server itself.
    pub created_by: Option<UserId>,
}

impl NewInvite {
    /// Its id in lists: the first half of the digest, from which nobody can compute the code.
    pub fn id(&self) -> InviteId {
        InviteId::from_bytes(self.digest.first_chunk().copied().unwrap_or_default())
    }
}

/// An invite that nobody has used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingInvite {
    /// Id in lists.
    pub id: InviteId,
    /// Unix milliseconds; `None` for an invite of an earlier version of the server.
    pub created_at_ms: Option<u64>,
    /// Unix milliseconds.
    pub expires_at_ms: u64,
    /// The administrator; `None` when unknown.
    pub created_by: Option<UserId>,
}

/// A page of invites, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvitePage {
    /// The invites.
    pub invites: Vec<PendingInvite>,
    /// Whether more follow.
    pub has_more: bool,
}

/// Stores accounts. The account [`UserId::SINGLE`], `default`, always exists. It is an administrator and has
/// no password until one is set. Ids rise and are never reused.
pub trait Users: Send + Sync {
    /// Creates an account. Fails with [`AccountError::NameTaken`], [`AccountError::EmailTaken`],
    /// [`AccountError::NotInvited`], [`AccountError::RegistrationClosed`] or [`AccountError::AccountsFull`].
    fn register(&self, new: NewAccount) -> Ticket<Account, AccountError>;
    /// Changes an account and returns the new state; `None` when it does not exist.
    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>, AccountError>;
    /// Stores a token. Fails with [`AccountError::TokensFull`] when the owner has `limit` of them.
    fn store_token(&self, new: NewToken, limit: u64) -> Ticket<(), AccountError>;
    /// Deletes a token. Returns whether it existed.
    fn revoke_token(&self, user: UserId, token: TokenId) -> Ticket<bool>;
    /// Stores an invite and deletes expired ones.
    fn store_invite(&self, invite: NewInvite) -> Ticket<()>;
    /// Deletes an invite. Returns whether it could still be used.
    fn revoke_invite(&self, id: InviteId) -> Ticket<bool>;

    /// Whether no account has a password yet, so that the next registration makes an administrator. An
    /// unreadable account counts as one with a password.
    fn has_no_accounts(&self) -> Result<bool, StoreError>;
    /// The account.
    fn account(&self, user: UserId) -> Result<Option<Account>, StoreError>;
    /// The account of this name, ignoring case.
    fn account_named(&self, username: &str) -> Result<Option<Account>, StoreError>;
    /// A page of accounts after this one, by id.
    fn accounts(&self, after: Option<UserId>, limit: usize) -> Result<AccountPage, StoreError>;
    /// A page of invites that do not expire before `now_ms`, after this one, by id.
    fn invites(&self, after: Option<InviteId>, limit: usize, now_ms: u64) -> Result<InvitePage, StoreError>;
    /// The token whose key has this digest, expired or not.
    fn token(&self, digest: &SecretDigest) -> Result<Option<ApiToken>, StoreError>;
    /// All tokens of a user, oldest first.
    fn tokens(&self, user: UserId) -> Result<Vec<ApiToken>, StoreError>;
}
