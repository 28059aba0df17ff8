//! Sends mail over SMTP to the configured recipients. An error names only its kind, never addresses or
//! passwords.

use super::options::{EmailOptions, MailTls};
use crate::ports::CancelToken;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long the server may send nothing.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often cancellation is checked.
const CANCEL_POLL: Duration = Duration::from_millis(100);
const SUBJECT_CHARS: usize = 78;

/// Why a mail was not sent. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MailError {
    #[error("the channel's configuration cannot be used; the operator has to look at it")]
    Configuration,
    #[error("the mail server refused it with code {0}")]
    Refused(u16),
    /// The mail may have been sent.
    #[error("the mail server could not be reached, or broke off")]
    Unreachable,
    /// The mail may have been sent.
    #[error("it was stopped before the mail server had answered")]
    Stopped,
}

/// Sends a mail with this id.
pub(super) fn send(
    options: &EmailOptions,
    content: &str,
    reference: &str,
    cancel: &CancelToken,
) -> Result<(), MailError> {
    let mail = mail(options, content, reference)?;
    let transport = transport(options)?;
    let (sender, receiver) = channel();
    // The transport cannot be interrupted: after a cancel, the thread ends with the timeouts of the server.
    let sending = move || drop(sender.send(transport.send(&mail)));
    thread::Builder::new().name("mail".to_owned()).spawn(sending).map_err(|_| MailError::Unreachable)?;
    loop {
        match receiver.recv_timeout(CANCEL_POLL) {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => {
                return Err(error
                    .status()
                    .map_or(MailError::Unreachable, |code| MailError::Refused(code.into())));
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(MailError::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(MailError::Unreachable),
        }
    }
}

fn mail(options: &EmailOptions, content: &str, reference: &str) -> Result<Message, MailError> {
    let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|_| MailError::Configuration);
    let mut builder = Message::builder()
        .from(mailbox(&options.from)?)
        .subject(subject(content))
        .message_id(Some(format!("<{reference}@nanoclaw>")));
    for to in &options.to {
        builder = builder.to(mailbox(to)?);
    }
    builder.body(content.to_owned()).map_err(|_| MailError::Configuration)
}

/// The first line that is not empty.
fn subject(content: &str) -> String {
    let line = content.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("A message");
    line.chars().filter(|c| !c.is_control()).take(SUBJECT_CHARS).collect()
}

fn transport(options: &EmailOptions) -> Result<SmtpTransport, MailError> {
    let parameters = || TlsParameters::new(options.host.clone()).map_err(|_| MailError::Configuration);
    let tls = match options.tls {
        MailTls::Starttls => Tls::Required(parameters()?),
        MailTls::Implicit => Tls::Wrapper(parameters()?),
        MailTls::None => Tls::None,
    };
    let port = options.port.unwrap_or_else(|| options.tls.port());
    let builder = SmtpTransport::builder_dangerous(options.host.as_str());
    let mut builder = builder.port(port).tls(tls).timeout(Some(SERVER_TIMEOUT));
    if let (Some(username), Some(password)) = (&options.username, &options.password) {
        builder = builder.credentials(Credentials::new(username.clone(), password.reveal().to_owned()));
    }
    Ok(builder.build())
}
