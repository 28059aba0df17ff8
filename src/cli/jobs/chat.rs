//! `nanoclaw chat`: one question after the other in one conversation. The terminal itself edits the line.

use super::ask::{JobOptions, id};
use super::watch::{WatchOptions, typed_line, watch};
use crate::app::system::SystemEntropy;
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::ports::Entropy;
use serde_json::{Value, json};
use std::io::IsTerminal;

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    options: JobOptions,
}

/// Asks each line of stdin, until its end. A failed job does not end the conversation.
pub(crate) fn chat(client: &ApiClient, args: &ChatArgs, terminal: &Terminal) -> Result<(), CliError> {
    let name = args.options.conversation.clone();
    let name = name.unwrap_or_else(|| format!("chat-{:08x}", SystemEntropy.random() >> 96));
    let is_typed = std::io::stdin().is_terminal();
    terminal.info(&format!("conversation {name}; Ctrl-D ends it, --conversation {name} continues it"));
    watch(client, terminal, WatchOptions { json: false, cancel: false }, |watch| {
        loop {
            watch.rest();
            if is_typed {
                terminal.prompt("> ");
            }
            let Some(line) = typed_line()? else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            let mut body = args.options.body(line.trim(), &[])?;
            if let Some(fields) = body.as_object_mut() {
                fields.insert("conversation_id".to_owned(), json!(name));
            }
            let job: Value = watch.submit(&body)?;
            if let Err(error) = id(&job).and_then(|id| watch.stream(id, 0, true)) {
                terminal.error(&error.to_string());
            }
        }
    })
}
