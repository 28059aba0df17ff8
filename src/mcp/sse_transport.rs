//! HTTP with SSE, the transport of 2024: one stream of events from the server, whose first event names the
//! address for messages to it.

use super::http_client::{HttpClient, McpHttpError};
use futures_util::StreamExt;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages that may wait to be read.
const WAITING_MESSAGES: usize = 64;

type SseTransportError = StreamableHttpError<McpHttpError>;

pub(super) struct SseTransport {
    client: HttpClient,
    headers: HashMap<HeaderName, HeaderValue>,
    /// Address for messages to the server.
    endpoint: Arc<str>,
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
}

impl SseTransport {
    /// Opens the stream and waits for the address.
    pub(super) async fn open(
        client: HttpClient,
        url: &str,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Self, SseTransportError> {
        let mut events = client.get_stream(url.into(), None, None, None, headers.clone()).await?;
        let endpoint = loop {
            let Some(event) = events.next().await else {
                return Err(
                    McpHttpError::Read("its stream ended before it named an address".to_owned()).into()
                );
            };
            let event = event.map_err(|error| McpHttpError::Read(error.to_string()))?;
            if let (Some("endpoint"), Some(address)) = (event.event.as_deref(), event.data) {
                break resolve(url, address.trim())?;
            }
        };
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES);
        tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                let text = event.data.unwrap_or_default();
                let message = match serde_json::from_str(&text) {
                    Ok(message) => message,
                    Err(error) => {
                        tracing::debug!(%error, "an event of an MCP server is no message");
                        continue;
                    }
                };
                if sender.send(message).await.is_err() {
                    break;
                }
            }
        });
        Ok(Self { client, headers, endpoint, messages })
    }
}

/// The address that the server names, which must be on the same host: the headers hold keys.
fn resolve(url: &str, address: &str) -> Result<Arc<str>, SseTransportError> {
    let base: Uri = url.parse().map_err(|_| McpHttpError::Write("its address is none".to_owned()))?;
    let origin = || {
        let scheme = base.scheme_str().unwrap_or("http");
        format!("{scheme}://{}", base.authority().map_or("", hyper::http::uri::Authority::as_str))
    };
    let resolved = if address.contains("://") {
        address.to_owned()
    } else if address.starts_with('/') {
        format!("{}{address}", origin())
    } else {
        let (dir, _) = base.path().rsplit_once('/').unwrap_or(("", ""));
        format!("{}{dir}/{address}", origin())
    };
    let parsed = resolved.parse::<Uri>().ok();
    let is_same =
        parsed.is_some_and(|uri| uri.scheme() == base.scheme() && uri.authority() == base.authority());
    if is_same {
        Ok(resolved.into())
    } else {
        Err(McpHttpError::Write("the address for messages is on another host".to_owned()).into())
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseTransportError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SseTransportError>> + Send + 'static {
        let (client, endpoint, headers) =
            (self.client.clone(), Arc::clone(&self.endpoint), self.headers.clone());
        async move {
            match client.post_message(endpoint, message, None, None, headers).await {
                // The answer comes through the stream; some servers say "ok" here.
                Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.messages.recv()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), SseTransportError>> + Send {
        self.messages.close();
        std::future::ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_messages_is_on_the_same_host() {
        let resolved = |address: &str| {
            resolve("https://h.test:8443/a/sse?k=1", address).ok().map(|address| address.to_string())
        };
        assert_eq!(resolved("/messages?id=1").as_deref(), Some("https://h.test:8443/messages?id=1"));
        assert_eq!(resolved("messages").as_deref(), Some("https://h.test:8443/a/messages"));
        assert_eq!(resolved("https://h.test:8443/m").as_deref(), Some("https://h.test:8443/m"));
        for other in ["https://h.test/m", "http://h.test:8443/m", "https://evil.test/m"] {
            assert_eq!(resolved(other), None, "{other}");
        }
    }
}
