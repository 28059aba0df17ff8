//! Renders messages as a text that a model can summarise.

use crate::domain::message::Message;

/// Longest excerpt of a message, characters.
const MESSAGE_CHARS: usize = 4_000;
/// Longest excerpt of a tool's result or of a call's arguments, characters.
const RESULT_CHARS: usize = 1_000;

/// The messages as text of about `chars` characters; the oldest are left out where that is too little.
pub(in crate::engine) fn transcript(
    earlier_summary: Option<&str>,
    messages: &[&Message],
    chars: usize,
) -> String {
    let mut lines: Vec<String> = messages.iter().flat_map(|message| render(message)).collect();
    let mut total: usize = lines.iter().map(|line| line.chars().count()).sum();
    let mut left_out = 0_usize;
    while total > chars && left_out.saturating_add(1) < lines.len() {
        total = total.saturating_sub(lines.get(left_out).map_or(0, |line| line.chars().count()));
        left_out = left_out.saturating_add(1);
    }
    lines.drain(..left_out);
    let summary_text = earlier_summary
        .map(|summary| format!("Summary of what came before: {}", excerpt(summary, chars / 4)));
    let omission_note = (left_out > 0).then(|| format!("({left_out} older entries are left out here)"));
    summary_text.into_iter().chain(omission_note).chain(lines).collect::<Vec<_>>().join("\n\n")
}

fn render(message: &Message) -> Vec<String> {
    match message {
        Message::System { content } => vec![format!("Instructions: {}", excerpt(content, MESSAGE_CHARS))],
        Message::User { content, attachments, images } => {
            let files = attachments.iter().map(|file| {
                format!("User attached '{}': {}", file.name, excerpt(&file.content, RESULT_CHARS))
            });
            let images = images.iter().map(|_| "User sent an image.".to_owned());
            let text = format!("User: {}", excerpt(content, MESSAGE_CHARS));
            std::iter::once(text).chain(files).chain(images).collect()
        }
        Message::Assistant { content, tool_calls, .. } => {
            let text =
                (!content.is_empty()).then(|| format!("Assistant: {}", excerpt(content, MESSAGE_CHARS)));
            let calls = tool_calls.iter().map(|call| {
                format!("Assistant called {} with {}", call.name, excerpt(&call.arguments, RESULT_CHARS))
            });
            text.into_iter().chain(calls).collect()
        }
        Message::Tool { name, content, .. } => {
            vec![format!("{name} answered: {}", excerpt(content, RESULT_CHARS))]
        }
    }
}

/// The text, or its head and tail where it is longer than `chars`.
fn excerpt(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let half = chars / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count.saturating_sub(half)).collect();
    format!("{head} […] {tail}")
}
