//! The start of a job's input, which its row keeps, so that lists can show it.

use super::characters::beginning;
use super::message::Message;
use serde::{Deserialize, Serialize};

/// The start of the newest user message of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPreview {
    /// At most [`InputPreview::BYTES`] bytes.
    pub text: String,
    /// Whether the input is more than this text.
    pub is_cut: bool,
}

impl InputPreview {
    /// Maximum length of the text, bytes.
    pub const BYTES: usize = 1_024;

    /// The preview of a request's messages.
    pub fn of(input: &[Message]) -> Self {
        let newest = input.iter().rev().find_map(|message| match message {
            Message::User { content, attachments, images } => {
                Some((content, attachments.is_empty() && images.is_empty()))
            }
            _ => None,
        });
        let Some((content, is_bare)) = newest else { return Self { text: String::new(), is_cut: true } };
        let text = beginning(content, Self::BYTES).to_owned();
        let is_cut = text.len() < content.len() || !is_bare || input.len() > 1;
        Self { text, is_cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_cut_at_a_character_boundary_and_says_so() {
        let short = InputPreview::of(&[Message::user("hello")]);
        assert_eq!(short, InputPreview { text: "hello".to_owned(), is_cut: false });
        // 1,024 is no multiple of 3, the length of one of these characters.
        let long = InputPreview::of(&[Message::user("汉".repeat(400))]);
        assert_eq!(long, InputPreview { text: "汉".repeat(341), is_cut: true });
        let exact = InputPreview::of(&[Message::user("x".repeat(1_024))]);
        assert!(!exact.is_cut && exact.text.len() == InputPreview::BYTES);
    }

    #[test]
    fn the_preview_of_a_conversation_is_its_newest_question() {
        let input = [Message::user("old"), Message::assistant("answer"), Message::user("new")];
        assert_eq!(InputPreview::of(&input), InputPreview { text: "new".to_owned(), is_cut: true });
    }
}
