//! What the query and the headers of a request say about a new batch.

use super::intake::NewBatchLines;
use crate::domain::id::{BatchId, UserId};
use crate::domain::webhook::WebhookUrl;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::v1::idempotency::{self, KeyDigest};
use crate::http::v1::openai::headers::JobHeaders;
use crate::http::v1::webhook_url::check_address;
use crate::ports::NewBatch;

/// Default of `concurrency`: jobs of the batch in the queue at the same time.
const CONCURRENCY: u32 = 64;

/// The longest `completion_window_s`: 30 days.
const MAX_WINDOW_S: u64 = 30 * 24 * 3_600;

/// A new batch without its lines.
pub(crate) struct BatchOptions {
    pub(crate) user: UserId,
    pub(crate) concurrency: u32,
    pub(crate) webhook_url: Option<WebhookUrl>,
    /// Time until the batch expires, seconds; `None`: never, or as a file's batch does.
    completion_window_s: Option<u64>,
    pub(crate) key: Option<KeyDigest>,
    /// Whether the lines are only checked.
    pub(crate) is_dry_run: bool,
    headers: JobHeaders,
}

impl BatchOptions {
    pub(crate) fn read(app: &AppDependencies, request: &RequestContext) -> Result<Self, ApiError> {
        let (limits, query) = (&app.limits, &request.query);
        let concurrency = query.whole("concurrency", 1..=u64::from(limits.batch_concurrency))?;
        let concurrency = concurrency.and_then(|n| u32::try_from(n).ok()).unwrap_or(CONCURRENCY);
        let url = query.text("webhook_url").map(|url| WebhookUrl::try_from(url.to_owned())).transpose();
        let url = url.map_err(|rule| ApiError::value("webhook_url", format!("'webhook_url' {rule}")))?;
        let is_dry_run = query.flag("dry_run")?.unwrap_or(false);
        Ok(Self {
            user: request.user,
            concurrency: concurrency.min(limits.batch_concurrency),
            completion_window_s: query.whole("completion_window_s", 1..=MAX_WINDOW_S)?,
            webhook_url: url.map(|url| check_address(url, app)).transpose()?,
            // A dry run makes nothing that a key could name.
            key: idempotency::key(&request.headers)?.filter(|_| !is_dry_run),
            is_dry_run,
            headers: JobHeaders::of(&request.headers)?,
        })
    }

    /// With this window, if the query names none.
    pub(crate) fn with_window(self, window_s: u64) -> Self {
        Self { completion_window_s: self.completion_window_s.or(Some(window_s)), ..self }
    }

    /// The batch without its lines.
    pub(crate) fn new_batch(self, app: &AppDependencies) -> (NewBatch, NewBatchLines) {
        let created_at_ms = app.clock.now_ms();
        let id = BatchId::from_bits(app.mint.mint(created_at_ms, app.entropy.random()));
        let Self { user, concurrency, webhook_url, headers, is_dry_run, .. } = self;
        let window_ms = self.completion_window_s.map(|window_s| window_s.saturating_mul(1_000));
        let new = NewBatch {
            id,
            user,
            created_at_ms,
            expires_at_ms: window_ms.map(|window_ms| created_at_ms.saturating_add(window_ms)),
            lines: 0,
            concurrency,
            webhook_url,
            source: None,
        };
        (new, NewBatchLines { id, user, file: None, is_dry_run, headers })
    }
}
