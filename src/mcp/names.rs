//! Names of tools as models see them: `mcp_<server>_<tool>`, sanitised, at most 64 characters, no two alike.

use sha2::{Digest, Sha256};

/// Longest name that every provider takes, characters.
const NAME_CHARS: usize = 64;
/// Of a hash, bytes: eight digits.
const HASH_BYTES: usize = 4;

/// A name for each tool, given as server and raw name, in their order. A tool's name depends on others only where they
/// would have the same.
pub(super) fn assign(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| sanitise(server, tool)).collect();
    let is_shared = |name: &str| plain.iter().filter(|other| *other == name).count() > 1;
    let named = plain.iter().zip(tools).map(|(name, (server, tool))| {
        if name.len() > NAME_CHARS || is_shared(name) { told_apart(name, server, tool) } else { name.clone() }
    });
    named.collect()
}

/// What a tool is called before it is cut or told apart from another: as it is, and with what providers refuse replaced.
pub(super) fn meant(server: &str, tool: &str) -> [String; 2] {
    [format!("mcp_{server}_{tool}"), sanitise(server, tool)]
}

/// The name before it is cut. ASCII.
fn sanitise(server: &str, tool: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("mcp_{server}_{tool}").chars().map(letter).collect()
}

/// The name with a hash of what it stands for.
fn told_apart(name: &str, server: &str, tool: &str) -> String {
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let hash = digest.iter().take(HASH_BYTES).fold(0_u32, |hash, byte| (hash << 8) | u32::from(*byte));
    let hash = format!("{hash:08x}");
    let head: String = name.chars().take(NAME_CHARS - 1 - hash.len()).collect();
    format!("{head}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(
            assign(&[("files", "read_file"), ("x-1", "get-sum")]),
            ["mcp_files_read_file", "mcp_x-1_get-sum"]
        );
    }

    #[test]
    fn what_providers_refuse_is_replaced() {
        assert_eq!(assign(&[("a", "get.the weather/ü")]), ["mcp_a_get_the_weather__"]);
        assert_eq!(assign(&[("a", "")]), ["mcp_a_"]);
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let (one, other) = ("t".repeat(100) + "1", "t".repeat(100) + "2");
        let names = assign(&[("a", &one), ("a", &other), ("a", &"t".repeat(58)), ("a", &"t".repeat(59))]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        assert_eq!(names[2], format!("mcp_a_{}", "t".repeat(58)), "64 characters fit");
    }

    #[test]
    fn what_is_meant_does_not_depend_on_who_else_is_there() {
        assert_eq!(meant("a", "x.y"), ["mcp_a_x.y", "mcp_a_x_y"]);
        assert_ne!(assign(&[("a", "x.y"), ("a", "x_y")])[1], meant("a", "x_y")[1], "its name does");
    }

    #[test]
    fn names_that_meet_are_told_apart_and_do_not_depend_on_order() {
        let tools = [("a", "x.y"), ("a", "x_y"), ("a_x", "y"), ("a", "z")];
        let names = assign(&tools);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        assert_eq!(names[3], "mcp_a_z");
        let mut turned = tools;
        turned.reverse();
        let mut other = assign(&turned);
        other.reverse();
        assert_eq!(names, other);
    }
}
