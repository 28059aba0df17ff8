//! Accounts and API tokens. Only hashes of passwords and keys cross this port.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::account::{Account, ApiToken, Email, PasswordHash, Quota, Registration, Role, Username};
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
    /// The first account needs the set-up invite, and it is missing, replaced or expired (HTTP: 403).
    #[error(
        "the first account is the administrator's and needs the set-up invite, which the server prints at its start \
         and which is valid for 24 hours; send it as 'invite'. On the server 'nanoclaw user setup-link' prints a new \
         one, and 'nanoclaw user add NAME' needs none"
    )]
    SetupInviteNeeded,
    /// A set-up invite is asked for, and an account exists (HTTP: 409).
    #[error("there is an account already; an administrator invites others, or creates their accounts")]
    AccountExists,
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

/// Who asks for a new account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationGate {
    /// A client without an account.
    Public {
        /// Who may register.
        registration: Registration,
        /// The invite that the client sent.
        invite: Option<SecretDigest>,
    },
    /// An administrator, or the operator on the server's machine.
    ByAdmin,
}

impl RegistrationGate {
    /// Decides who may register: the invite that the registration uses up, or the reason why it is refused.
    /// The first account of all is the administrator's and needs the set-up invite, whatever `registration`
    /// says.
    pub fn required_invite(self, is_first: bool) -> Result<Option<RequiredInvite>, AccountError> {
        let Self::Public { registration, invite } = self else { return Ok(None) };
        let kind = match registration {
            _ if is_first => InviteKind::Setup,
            Registration::Open => return Ok(None),
            Registration::Closed => return Err(AccountError::RegistrationClosed),
            Registration::Invite => InviteKind::Ordinary,
        };
        let digest = invite.ok_or_else(|| kind.refusal())?;
        Ok(Some(RequiredInvite { digest, kind }))
    }
}

/// An invite that must be valid for a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredInvite {
    /// Digest of its code.
    pub digest: SecretDigest,
    /// No invite stands for one of the other kind.
    pub kind: InviteKind,
}

/// What an invite is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteKind {
    /// The first account of a server. There is at most one such invite.
    Setup,
    /// Any further account.
    Ordinary,
}

impl InviteKind {
    /// Why a registration without a valid invite of this kind is refused.
    pub fn refusal(self) -> AccountError {
        match self {
            Self::Setup => AccountError::SetupInviteNeeded,
            Self::Ordinary => AccountError::NotInvited,
        }
    }
}

/// What becomes of a set-up invite that is still valid when another one is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidSetupInvite {
    /// It stays, and the other one is not stored.
    Kept,
    /// The other one takes its place.
    Replaced,
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
    /// The administrator; `None` for the set-up invite, which the server makes itself.
    pub created_by: Option<UserId>,
}

impl NewInvite {
    /// Its id in lists: the first half of the digest, from which nobody can compute the code.
    pub fn id(&self) -> InviteId {
        InviteId::from_bytes(self.digest.first_chunk().copied().unwrap_or_default())
    }

    /// As it is listed.
    pub fn pending(&self) -> PendingInvite {
        PendingInvite {
            id: self.id(),
            created_at_ms: Some(self.created_at_ms),
            expires_at_ms: self.expires_at_ms,
            created_by: self.created_by,
        }
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
    /// [`AccountError::AccountsFull`], or the refusal of [`RegistrationGate::required_invite`]. The first
    /// account ends the set-up invite.
    fn register(&self, new: NewAccount) -> Ticket<Account, AccountError>;
    /// Changes an account and returns the new state; `None` when it does not exist.
    fn change_account(&self, user: UserId, change: AccountChange) -> Ticket<Option<Account>, AccountError>;
    /// Stores a token. Fails with [`AccountError::TokensFull`] when the owner has `limit` of them.
    fn store_token(&self, new: NewToken, limit: u64) -> Ticket<(), AccountError>;
    /// Deletes a token. Returns whether it existed.
    fn revoke_token(&self, user: UserId, token: TokenId) -> Ticket<bool>;
    /// Stores an invite and deletes expired ones.
    fn store_invite(&self, invite: NewInvite) -> Ticket<()>;
    /// Stores the set-up invite and returns the one in force. There is never more than one. Fails with
    /// [`AccountError::AccountExists`] when nobody needs it.
    fn store_setup_invite(
        &self,
        invite: NewInvite,
        valid: ValidSetupInvite,
    ) -> Ticket<PendingInvite, AccountError>;
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
