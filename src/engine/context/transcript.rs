//! Messages as a text that a model can summarise. Owns how much of each is told; refuses to be sent as a conversation.

use crate::domain::message::Message;

/// Of one message, characters at most: head and tail.
const MESSAGE_CHARS: usize = 4_000;
/// Of a tool's result or a call's arguments.
const RESULT_CHARS: usize = 1_000;

/// Who said what, one after the other, at most `chars` characters: where that is too little, the oldest are left out.
pub(in crate::engine) fn transcript(
    earlier_summary: Option<&str>,
    messages: &[&Message],
    chars: usize,
) -> String {
    let mut lines: Vec<String> = messages.iter().flat_map(|message| tell(message)).collect();
    let mut total: usize = lines.iter().map(|line| line.chars().count()).sum();
    let mut left_out = 0_usize;
    while total > chars && left_out.saturating_add(1) < lines.len() {
        total = total.saturating_sub(lines.get(left_out).map_or(0, |line| line.chars().count()));
        left_out = left_out.saturating_add(1);
    }
    lines.drain(..left_out);
    let before =
        earlier_summary.map(|summary| format!("Summary of what came before: {}", cut(summary, chars / 4)));
    let gap = (left_out > 0).then(|| format!("({left_out} older entries are left out here)"));
    before.into_iter().chain(gap).chain(lines).collect::<Vec<_>>().join("\n\n")
}

fn tell(message: &Message) -> Vec<String> {
    match message {
        Message::System { content } => vec![format!("Instructions: {}", cut(content, MESSAGE_CHARS))],
        Message::User { content, attachments } => {
            let files = attachments
                .iter()
                .map(|file| format!("User attached '{}': {}", file.name, cut(&file.content, RESULT_CHARS)));
            std::iter::once(format!("User: {}", cut(content, MESSAGE_CHARS))).chain(files).collect()
        }
        Message::Assistant { content, tool_calls, .. } => {
            let words = (!content.is_empty()).then(|| format!("Assistant: {}", cut(content, MESSAGE_CHARS)));
            let calls = tool_calls.iter().map(|call| {
                format!("Assistant called {} with {}", call.name, cut(&call.arguments, RESULT_CHARS))
            });
            words.into_iter().chain(calls).collect()
        }
        Message::Tool { name, content, .. } => {
            vec![format!("{name} answered: {}", cut(content, RESULT_CHARS))]
        }
    }
}

/// Head and tail of a text that is longer than the bound.
fn cut(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let half = chars / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count.saturating_sub(half)).collect();
    format!("{head} […] {tail}")
}
