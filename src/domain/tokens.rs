//! Token estimates by character class, corrected by what providers report. Estimates decide when to shorten a
//! prompt, never what is billed.

use super::characters::CharacterCounts;
use super::message::Message;
use super::tool::{ToolCall, ToolDefinition};

/// Tokens of a message's frame, thousandths.
const FRAME: u64 = 4_000;
/// The weight of an image, of any size: providers scale large ones down to about so many tokens.
const IMAGE: u64 = 1_600_000;
/// Tokens of the JSON around a tool's name, description and schema, thousandths.
const TOOL_FRAME: u64 = 16_000;
/// Minimum and maximum correction of an estimate, thousandths.
const FACTOR: std::ops::RangeInclusive<u64> = 250..=4_000;

/// Cost of a character, thousandths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Weights {
    ascii: u64,
    /// Other letters: Latin with marks, Cyrillic, Greek, Arabic …
    other: u64,
    wide: u64,
}

/// Model families by a part of the model's name; the first match wins. Measured on mixed prose and code and
/// rounded up, because cutting a prompt a little early does no harm.
const FAMILIES: [(&str, Weights); 9] = [
    ("gpt-3", Weights { ascii: 260, other: 600, wide: 1_100 }),
    ("gpt", Weights { ascii: 250, other: 450, wide: 800 }),
    ("claude", Weights { ascii: 300, other: 600, wide: 1_200 }),
    ("deepseek", Weights { ascii: 280, other: 500, wide: 650 }),
    ("glm", Weights { ascii: 270, other: 500, wide: 650 }),
    ("qwen", Weights { ascii: 270, other: 500, wide: 700 }),
    ("kimi", Weights { ascii: 260, other: 500, wide: 650 }),
    ("gemini", Weights { ascii: 250, other: 450, wide: 700 }),
    ("llama", Weights { ascii: 260, other: 500, wide: 1_000 }),
];
const UNKNOWN: Weights = Weights { ascii: 280, other: 550, wide: 1_000 };

/// Token estimates for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEstimator {
    weights: Weights,
    factor: u64,
}

impl TokenEstimator {
    /// The estimator for the model of this name.
    pub fn of_model(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let known = FAMILIES.iter().find(|(part, _)| name.contains(part));
        Self { weights: known.map_or(UNKNOWN, |(_, weights)| *weights), factor: 1_000 }
    }

    /// Learns from a prompt that was estimated at `estimated` tokens and reported as `reported`.
    pub fn correct(&mut self, estimated: u64, reported: u64) {
        if estimated > 0 && reported > 0 {
            let factor = self.factor.saturating_mul(reported) / estimated;
            self.factor = factor.clamp(*FACTOR.start(), *FACTOR.end());
        }
    }

    /// Tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        self.tokens(self.weigh(text))
    }

    /// Tokens of the messages together.
    pub fn messages<'m>(&self, messages: impl IntoIterator<Item = &'m Message>) -> u64 {
        self.tokens(messages.into_iter().map(|message| self.weigh_message(message)).sum())
    }

    /// Tokens of the tool definitions.
    pub fn tools(&self, tools: &[ToolDefinition]) -> u64 {
        let weigh = |tool: &ToolDefinition| self.weigh_letters(tool.letters()).saturating_add(TOOL_FRAME);
        self.tokens(tools.iter().map(weigh).sum())
    }

    fn weigh_message(&self, message: &Message) -> u64 {
        let call = |call: &ToolCall| {
            self.weigh(&call.name).saturating_add(self.weigh(&call.arguments)).saturating_add(FRAME)
        };
        let texts = match message {
            Message::System { content } | Message::Tool { content, .. } => self.weigh(content),
            Message::User { content, attachments, images } => attachments
                .iter()
                .map(|file| self.weigh(&file.content).saturating_add(self.weigh(&file.name)))
                .fold(self.weigh(content), u64::saturating_add)
                .saturating_add(IMAGE.saturating_mul(images.len() as u64)),
            Message::Assistant { content, thinking, tool_calls, .. } => tool_calls
                .iter()
                .map(call)
                .fold(self.weigh(content).saturating_add(self.weigh(thinking)), u64::saturating_add),
        };
        texts.saturating_add(FRAME)
    }

    fn weigh(&self, text: &str) -> u64 {
        // One pass over bytes for ASCII, the most common case.
        if text.is_ascii() {
            return (text.len() as u64).saturating_mul(self.weights.ascii);
        }
        self.weigh_letters(CharacterCounts::of(&[text]))
    }

    fn weigh_letters(&self, letters: CharacterCounts) -> u64 {
        let (ascii, other) = (
            letters.ascii.saturating_mul(self.weights.ascii),
            letters.other.saturating_mul(self.weights.other),
        );
        ascii.saturating_add(other).saturating_add(letters.wide.saturating_mul(self.weights.wide))
    }

    fn tokens(&self, weight: u64) -> u64 {
        let corrected = u128::from(weight).saturating_mul(u128::from(self.factor)) / 1_000;
        u64::try_from(corrected.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_estimates_differ_by_model_family_and_character_width() {
        let gpt = TokenEstimator::of_model("GPT-4o-mini");
        assert_eq!(gpt.text(&"abcd".repeat(100)), 100);
        let prose = "hello world ".repeat(50);
        assert!(TokenEstimator::of_model("claude-sonnet-4").text(&prose) > gpt.text(&prose));
        assert!(gpt.text("漢字漢字") >= 3 && gpt.text("漢字漢字") > gpt.text("abcd"));
        assert_eq!(TokenEstimator::of_model("who knows").text(""), 0);
    }

    #[test]
    fn reported_usage_corrects_later_token_estimates() {
        let mut estimator = TokenEstimator::of_model("gpt-4");
        let before = estimator.text(&"x".repeat(4_000));
        estimator.correct(before, before * 2);
        assert_eq!(estimator.text(&"x".repeat(4_000)), before * 2);
        estimator.correct(before * 2, before);
        assert_eq!(estimator.text(&"x".repeat(4_000)), before, "corrections do not pile up");
        estimator.correct(1, u64::MAX / 2);
        assert_eq!(estimator.text(&"x".repeat(4_000)), before * 4, "within bounds");
        estimator.correct(5, 0);
        assert_eq!(estimator.text(&"x".repeat(4_000)), before * 4, "nothing reported, nothing learnt");
    }

    #[test]
    fn the_token_estimate_includes_attachments() {
        let estimator = TokenEstimator::of_model("gpt-4");
        let without_files = estimator.messages(&[Message::user("hi")]);
        let file = super::super::attachment::Attachment {
            name: "a".into(),
            extension: String::new(),
            content: "x".repeat(400),
        };
        let with = Message::User { content: "hi".into(), attachments: vec![file], images: Vec::new() };
        assert!(estimator.messages(&[with]) >= without_files + 100);
    }
}
