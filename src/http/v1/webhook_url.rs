//! Checks `webhook_url`. A host name is resolved and checked only when the webhook is called.

use crate::domain::webhook::WebhookUrl;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use hyper::Uri;

const FIELD: &str = "webhook_url";

/// The URL, if its address may be reached.
pub(crate) fn check_address(url: WebhookUrl, app: &AppDependencies) -> Result<WebhookUrl, ApiError> {
    if url.reveal().parse::<Uri>().is_err() {
        return Err(ApiError::value(FIELD, format!("'{FIELD}' is not a URL")));
    }
    match url.literal_address().filter(|address| !app.addresses.permits(*address)) {
        Some(address) => Err(ApiError::Invalid {
            message: format!(
                "'{FIELD}' leads to {address}, which is not a public address; if it is yours, add it to \
                 webhooks.allow_private_addresses in the configuration"
            ),
            param: Some(FIELD.to_owned()),
            code: "address_not_allowed",
        }),
        None => Ok(url),
    }
}
