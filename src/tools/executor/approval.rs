//! `approval:` of the configuration: patterns of the tools whose calls wait for an approval.

use super::name_pattern::NamePattern;
use super::registered_tool::RegisteredTool;

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

/// Patterns of names.
#[derive(Debug, Clone, Default)]
pub struct ApprovalRules {
    patterns: Vec<NamePattern>,
}

impl ApprovalRules {
    /// Reads the patterns. The error names the index of the invalid one.
    pub fn new(patterns: &[String]) -> Result<Self, (usize, BadApprovalPattern)> {
        if patterns.len() > MAX_PATTERNS {
            return Err((MAX_PATTERNS, BadApprovalPattern::TooMany));
        }
        let read =
            |(at, text): (usize, &String)| NamePattern::new(text).ok_or((at, BadApprovalPattern::NoName));
        Ok(Self { patterns: patterns.iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    pub(super) fn patterns(&self) -> &[NamePattern] {
        &self.patterns
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
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> Result<ApprovalRules, (usize, BadApprovalPattern)> {
        ApprovalRules::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_needs_approval_if_one_pattern_matches_it() {
        let rules = rules(&["bash", "file_*"]).expect("good patterns");
        assert!(rules.matches_name("bash") && rules.matches_name("file_write"));
        assert!(!rules.matches_name("calculator"));
        assert!(!ApprovalRules::default().matches_name("bash"), "nothing waits of itself");
    }

    #[test]
    fn an_invalid_approval_pattern_is_refused_with_its_index() {
        assert_eq!(rules(&["bash", "a b"]).err(), Some((1, BadApprovalPattern::NoName)));
        assert!(rules(&vec!["a*b*c*d*e*f*g*"; MAX_PATTERNS]).is_ok());
        let many = rules(&vec!["a"; MAX_PATTERNS + 1]);
        assert_eq!(many.err(), Some((MAX_PATTERNS, BadApprovalPattern::TooMany)));
    }
}
