//! Patterns of tool names: `*` stands for any characters, `?` for one. Pure.

/// The longest pattern: no tool has a longer name. One more place fits into the bits of a match.
const PATTERN_CHARS: usize = 64;

/// The beginning of the names of all tools of MCP servers.
const MCP_HEAD: &str = "mcp_";

/// A pattern of names, or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// `None`: no tool's name can match the text.
    pub fn new(text: &str) -> Option<Self> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?');
        let is_pattern = !text.is_empty() && text.len() <= PATTERN_CHARS && text.chars().all(is_allowed);
        is_pattern.then(|| Self(text.to_owned()))
    }

    /// As the operator wrote it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The pattern without its wildcards, to compare it with names.
    pub fn letters(&self) -> String {
        self.0.replace(['*', '?'], "")
    }

    /// Whether it has a wildcard.
    pub fn has_wildcard(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    /// Whether only tools of MCP servers can match it.
    pub fn is_of_mcp(&self) -> bool {
        self.0.starts_with(MCP_HEAD)
    }

    /// Whether it stands for the tools of all MCP servers, whether there are any or not.
    pub fn is_all_of_mcp(&self) -> bool {
        self.0.strip_prefix(MCP_HEAD).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c == '*'))
    }

    /// Whether it matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.places_after(name) >> self.0.len() & 1 == 1
    }

    /// Whether it may match a name that begins so.
    pub fn may_begin_with(&self, beginning: &str) -> bool {
        self.places_after(beginning) != 0
    }

    /// The places in the pattern where a match may stand after the text, a bit each.
    fn places_after(&self, text: &str) -> u128 {
        text.chars().fold(self.with_empty_stars(1), |places, found| {
            let next =
                self.0.chars().enumerate().filter(|(at, _)| places >> at & 1 == 1).map(|(at, wanted)| {
                    match wanted {
                        '*' => 1 << at,
                        '?' => 2 << at,
                        wanted if wanted == found => 2 << at,
                        _ => 0,
                    }
                });
            self.with_empty_stars(next.fold(0, |all, place| all | place))
        })
    }

    /// A star may match nothing.
    fn with_empty_stars(&self, places: u128) -> u128 {
        let stars = self.0.chars().enumerate().filter(|(_, wanted)| *wanted == '*');
        stars.fold(places, |places, (at, _)| places | (places & 1 << at) << 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> NamePattern {
        NamePattern::new(text).expect("a pattern")
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        for (text, matched, others) in [
            ("bash", &["bash"][..], &["bash2", "xbash", "bas", ""][..]),
            ("file_*", &["file_", "file_write"], &["file", "xfile_a"]),
            ("mcp_?_x", &["mcp_1_x"], &["mcp_12_x", "mcp__x"]),
            ("*pay*", &["pay", "mcp_a_pay_now"], &["pa", "p_ay"]),
            ("**a", &["a", "ba", "aa"], &["", "ab"]),
            ("a-b", &["a-b"], &["axb"]),
            ("*", &["", "x"], &[]),
        ] {
            for name in matched {
                assert!(pattern(text).matches(name), "{text} {name}");
            }
            for name in others {
                assert!(!pattern(text).matches(name), "{text} {name}");
            }
        }
        let longest = pattern(&"x".repeat(64));
        assert!(longest.matches(&"x".repeat(64)) && !longest.matches(&"x".repeat(65)));
        for bad in ["", "a b", "a.b", "[a]", &"x".repeat(65), "ü"] {
            assert_eq!(NamePattern::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_pattern_may_match_names_that_begin_like_those_of_a_server() {
        for text in ["mcp_git_push", "mcp_git_*", "mcp_*", "*push", "mcp_?it_push", "*"] {
            assert!(pattern(text).may_begin_with("mcp_git_"), "{text}");
        }
        for text in ["mcp_gti_push", "git_push", "bash", "mcp_gi*x", "?cp_got*"] {
            assert_eq!(pattern(text).may_begin_with("mcp_git_"), text == "mcp_gi*x", "{text}");
        }
        assert!(pattern("mcp_*").is_all_of_mcp() && !pattern("mcp_*_pay").is_all_of_mcp());
    }
}
