//! Checks `webhook_url`. A host name is resolved and checked only when the webhook is called.

use crate::domain::webhook::WebhookUrl;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use hyper::Uri;

const FIELD: &str = "webhook_url";

pub(crate) fn webhook_url(
    text: Option<String>,
    app: &AppDependencies,
) -> Result<Option<WebhookUrl>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |rule: &str| ApiError::value(FIELD, format!("'{FIELD}' {rule}"));
    let url = WebhookUrl::try_from(text).map_err(wrong)?;
    if url.reveal().parse::<Uri>().is_err() {
        return Err(wrong("is not a URL"));
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
        None => Ok(Some(url)),
    }
}
