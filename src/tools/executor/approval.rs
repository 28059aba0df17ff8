//! `approval:` of the configuration: patterns of the tools whose calls wait for an approval.

use super::catalogue::RegisteredTool;
use regex::{RegexSet, RegexSetBuilder};

/// The longest pattern: no tool has a longer name.
const PATTERN_CHARS: usize = 64;
const MAX_PATTERNS: usize = 256;

/// An invalid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadApprovalPattern {
    /// No tool name can match it.
    #[error(
        "must be a tool's name or a pattern of it, as in bash, file_* or mcp_git_*: letters, digits, _, -, * and ?"
    )]
    NoName,
    /// There are too many patterns.
    #[error("is one too many: at most {MAX_PATTERNS} patterns")]
    TooMany,
}

/// Patterns of names: `*` stands for any characters, `?` for one.
#[derive(Debug, Clone, Default)]
pub struct ApprovalRules {
    patterns: RegexSet,
}

impl ApprovalRules {
    /// Compiles the patterns. The error names the index of the invalid one.
    pub fn new(patterns: &[String]) -> Result<Self, (usize, BadApprovalPattern)> {
        if patterns.len() > MAX_PATTERNS {
            return Err((MAX_PATTERNS, BadApprovalPattern::TooMany));
        }
        if let Some(index) = patterns.iter().position(|pattern| !is_pattern(pattern)) {
            return Err((index, BadApprovalPattern::NoName));
        }
        let built = RegexSetBuilder::new(patterns.iter().map(|pattern| expression(pattern))).build();
        // Only the set can be too large. The error then names its last pattern.
        let patterns = built.map_err(|_| (patterns.len().saturating_sub(1), BadApprovalPattern::TooMany))?;
        Ok(Self { patterns })
    }

    /// Whether calls of this name need approval, in a job that asks for that of `approval_tools`, too:
    /// because of the name itself, as the tool may be missing now, or because of any name of the tool.
    pub(super) fn covers(
        &self,
        requested: &str,
        tool: Option<&RegisteredTool>,
        approval_tools: &[String],
    ) -> bool {
        let is_covered =
            |name: &str| self.matches_name(name) || approval_tools.iter().any(|asked| asked == name);
        is_covered(requested) || tool.is_some_and(|tool| tool.approval_names().any(is_covered))
    }

    fn matches_name(&self, name: &str) -> bool {
        self.patterns.is_match(name)
    }
}

fn is_pattern(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?');
    !text.is_empty() && text.len() <= PATTERN_CHARS && text.chars().all(is_allowed)
}

fn expression(pattern: &str) -> String {
    let regex_text: String = pattern
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            other => regex::escape(other.encode_utf8(&mut [0; 4])),
        })
        .collect();
    format!("^{regex_text}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> Result<ApprovalRules, (usize, BadApprovalPattern)> {
        ApprovalRules::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_approval_pattern_matches_whole_names() {
        let rules = rules(&["bash", "file_*", "mcp_?_x", "a-b"]).expect("good patterns");
        for covered in ["bash", "file_", "file_write", "mcp_1_x", "a-b"] {
            assert!(rules.matches_name(covered), "{covered}");
        }
        for free in ["bash2", "xbash", "mcp_12_x", "mcp__x", "file", "axb", ""] {
            assert!(!rules.matches_name(free), "{free}");
        }
        assert!(!ApprovalRules::default().matches_name("bash"), "nothing waits of itself");
    }

    #[test]
    fn an_invalid_approval_pattern_is_refused_with_its_index() {
        for bad in ["", "a b", "a.b", "[a]", &"x".repeat(65), "ü"] {
            assert_eq!(rules(&["bash", bad]).err(), Some((1, BadApprovalPattern::NoName)), "{bad}");
        }
        let many = vec!["a*b*c*d*e*f*g*"; MAX_PATTERNS];
        assert!(rules(&many).is_ok());
        assert_eq!(
            rules(&vec!["a"; MAX_PATTERNS + 1]).err(),
            Some((MAX_PATTERNS, BadApprovalPattern::TooMany))
        );
    }
}
