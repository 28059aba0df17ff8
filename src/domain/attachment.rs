//! Files attached to a user's message, and how a model reads them.

use serde::{Deserialize, Serialize};

/// An attached text file.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "StoredAttachment"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// File name.
    pub name: String,
    /// Kind of text, such as `py`; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extension: String,
    /// Content.
    pub content: String,
}

impl Attachment {
    /// The file as a fenced Markdown block. The fence is longer than any run of backticks in the content, so
    /// that no content can end its block.
    pub fn block(&self) -> String {
        let fence = "`".repeat(longest_run(&self.content).saturating_add(1).max(3));
        let kind: String =
            self.extension.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '+').collect();
        let name: String = self.name.chars().filter(|c| !c.is_control() && *c != '`').collect();
        let end = if self.content.ends_with('\n') { "" } else { "\n" };
        format!("Attached file `{name}`:\n{fence}{kind}\n{}{end}{fence}", self.content)
    }

    /// Size of name, extension and content, bytes.
    pub fn bytes(&self) -> usize {
        self.name.len().saturating_add(self.extension.len()).saturating_add(self.content.len())
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, extension: &str, content: &str) -> String {
        Attachment { name: name.into(), extension: extension.into(), content: content.into() }.block()
    }

    #[test]
    fn an_attachment_becomes_a_fenced_block_with_its_name() {
        assert_eq!(file("a.py", "py", "print(1)\n"), "Attached file `a.py`:\n```py\nprint(1)\n```");
        assert_eq!(file("n`\n", "x\ny", "1"), "Attached file `n`:\n```xy\n1\n```");
    }

    #[test]
    fn the_fence_is_longer_than_any_fence_in_the_content() {
        assert_eq!(file("a.md", "md", "```\nx\n````"), "Attached file `a.md`:\n`````md\n```\nx\n````\n`````");
    }
}
