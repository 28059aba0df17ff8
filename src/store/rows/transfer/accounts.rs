//! Accounts, API tokens, invites and usage.

use crate::domain::account::{Account, ApiToken, Email};
use crate::domain::id::{ConversationId, InviteId, UserId};
use crate::domain::usage::Usage;
use crate::ports::{SecretDigest, StoreError};
use crate::store::rows::transfer::TransferRow;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::{TextCells, TextRow};
use crate::store::rows::usage::{ConversationDayRow, UsageRow};
use sha2::{Digest, Sha256};

/// An account.
pub(crate) struct TransferAccount(pub(crate) JsonDocument<Account>);

impl TransferRow for TransferAccount {
    const TABLE: &'static str = "users";
    const COLUMNS: &'static [&'static str] =
        &["id", "name_key", "email_key", "role", "is_active", "has_password", "row"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let account = &self.0.value;
        let row = TextRow::default()
            .user(account.id)
            .text(account.username.key())
            .optional(account.email.as_ref().map(Email::key))
            .name(&account.role)?
            .flag(account.is_active)
            .flag(account.password.is_some());
        Ok(row.document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(6)?;
        cells.document().map(Self)
    }
}

/// An API token and the digest of its key.
pub(crate) struct TransferToken {
    pub(crate) token: JsonDocument<ApiToken>,
    pub(crate) digest: SecretDigest,
}

impl TransferRow for TransferToken {
    const TABLE: &'static str = "tokens";
    const COLUMNS: &'static [&'static str] = &["user_id", "id", "digest", "expires_at_ms", "row"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let token = &self.token.value;
        Ok(TextRow::default()
            .user(token.user)
            .text(token.id)
            .bytes(&self.digest)
            .optional_number(token.expires_at_ms)
            .document(&self.token))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(2)?;
        let digest = cells.bytes()?;
        cells.skip(1)?;
        Ok(Self { token: cells.document()?, digest })
    }
}

/// An invite. Early builds stored its expiry only.
pub(crate) struct TransferInvite {
    pub(crate) digest: SecretDigest,
    pub(crate) created_at_ms: Option<u64>,
    pub(crate) expires_at_ms: u64,
    pub(crate) created_by: Option<UserId>,
}

impl TransferRow for TransferInvite {
    const TABLE: &'static str = "invites";
    const COLUMNS: &'static [&'static str] =
        &["digest", "id", "created_at_ms", "expires_at_ms", "created_by"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let id = self.digest.first_chunk().copied().map(InviteId::from_bytes);
        Ok(TextRow::default()
            .bytes(&self.digest)
            .optional(id)
            .optional_number(self.created_at_ms)
            .number(self.expires_at_ms)
            .optional(self.created_by.map(|user| user.0)))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let digest = cells.bytes()?;
        cells.skip(1)?;
        Ok(Self {
            digest,
            created_at_ms: cells.optional()?,
            expires_at_ms: cells.text()?,
            created_by: cells.optional()?.map(UserId),
        })
    }
}

fn with_usage(row: TextRow, usage: Usage) -> TextRow {
    row.number(usage.prompt_tokens)
        .number(usage.completion_tokens)
        .number(usage.total_tokens)
        .number(usage.cached_tokens)
        .number(usage.reasoning_tokens)
        .number(usage.cost_micros)
}

fn read_usage(cells: &mut TextCells<'_>) -> Result<Usage, StoreError> {
    Ok(Usage {
        prompt_tokens: cells.text()?,
        completion_tokens: cells.text()?,
        total_tokens: cells.text()?,
        cached_tokens: cells.text()?,
        reasoning_tokens: cells.text()?,
        cost_micros: cells.text()?,
    })
}

/// The key of a model, whose name may be long.
pub(crate) fn model_digest(model: &str) -> [u8; 32] {
    Sha256::digest(model).into()
}

/// The usage of a user on a model in a day, or in an hour.
pub(crate) struct TransferUsage<const IS_HOUR: bool> {
    pub(crate) user: UserId,
    /// Days, or hours, since 1970.
    pub(crate) at: u32,
    pub(crate) row: UsageRow,
}

impl<const IS_HOUR: bool> TransferRow for TransferUsage<IS_HOUR> {
    const TABLE: &'static str = if IS_HOUR { "usage_hourly" } else { "usage_daily" };
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        if IS_HOUR { "hour" } else { "day" },
        "model_digest",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cost_micros",
        "jobs",
    ];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let UsageRow { model, usage, jobs } = &self.row;
        let row =
            TextRow::default().user(self.user).number(self.at).bytes(&model_digest(model)).json(model)?;
        Ok(with_usage(row, *usage).number(*jobs))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (user, at) = (cells.user()?, cells.text()?);
        cells.skip(1)?;
        let model = cells.document::<String>()?.value;
        let (usage, jobs) = (read_usage(&mut cells)?, cells.text()?);
        Ok(Self { user, at, row: UsageRow { model, usage, jobs } })
    }
}

/// The usage of a conversation on a model.
pub(crate) struct TransferConversationUsage {
    pub(crate) user: UserId,
    pub(crate) conversation: ConversationId,
    pub(crate) model: String,
    pub(crate) usage: Usage,
}

impl TransferRow for TransferConversationUsage {
    const TABLE: &'static str = "conversation_usage";
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        "conversation",
        "model_digest",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cost_micros",
    ];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default()
            .user(self.user)
            .text(&self.conversation)
            .bytes(&model_digest(&self.model))
            .json(&self.model)?;
        Ok(with_usage(row, self.usage))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (user, conversation) = (cells.user()?, cells.conversation()?);
        cells.skip(1)?;
        let model = cells.document::<String>()?.value;
        Ok(Self { user, conversation, model, usage: read_usage(&mut cells)? })
    }
}

/// The usage of a conversation on a day.
pub(crate) struct TransferConversationDay {
    pub(crate) user: UserId,
    pub(crate) conversation: ConversationId,
    /// Days since 1970.
    pub(crate) day: u32,
    pub(crate) row: ConversationDayRow,
}

impl TransferRow for TransferConversationDay {
    const TABLE: &'static str = "conversation_usage_daily";
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        "conversation",
        "day",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cost_micros",
        "jobs",
    ];
    const KEY: usize = 3;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default().user(self.user).text(&self.conversation).number(self.day);
        Ok(with_usage(row, self.row.usage).number(self.row.jobs))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let (user, conversation, day) = (cells.user()?, cells.conversation()?, cells.text()?);
        let row = ConversationDayRow { usage: read_usage(&mut cells)?, jobs: cells.text()? };
        Ok(Self { user, conversation, day, row })
    }
}
