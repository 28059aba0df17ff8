//! Names of tools for models: `mcp_<server>_<tool>`, unique, at most 64 characters that every provider
//! accepts.

use sha2::{Digest, Sha256};

/// Longest name that every provider accepts.
const NAME_CHARS: usize = 64;
/// Characters of a server's name that stay in a shortened name.
const SERVER_CHARS: usize = 16;

/// Names the tools, each given as server and raw name. A name depends on other tools only if both would have
/// the same.
pub(super) fn assign(tools: &[(&str, &str)]) -> Vec<String> {
    let names: Vec<String> = tools.iter().map(|(server, tool)| sanitise(server, tool)).collect();
    let is_shared = |name: &str| names.iter().filter(|other| *other == name).count() > 1;
    let assigned = names.iter().zip(tools).map(|(name, (server, tool))| {
        if name.len() > NAME_CHARS || is_shared(name) { with_hash(name, server, tool) } else { name.clone() }
    });
    assigned.collect()
}

/// How the names of all tools of a server begin, also shortened ones.
pub fn beginning_of(server: &str) -> String {
    match server.char_indices().nth(SERVER_CHARS) {
        Some((end, _)) => sanitise(server.get(..end).unwrap_or(server), "").trim_end_matches('_').to_owned(),
        None => sanitise(server, ""),
    }
}

/// The full name before it is shortened or made unique: as it is, and sanitised.
pub(super) fn unshortened(server: &str, tool: &str) -> [String; 2] {
    [format!("mcp_{server}_{tool}"), sanitise(server, tool)]
}

/// A file name for a server: readable, and another one for every server.
pub(super) fn directory_name(server: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if server.len() <= NAME_CHARS && server.chars().all(is_plain) {
        return server.to_owned();
    }
    let plain = server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(NAME_CHARS / 2);
    format!("{}_{}", plain.collect::<String>(), hash_of(server))
}

/// Replaces everything that providers refuse. The result is ASCII.
fn sanitise(server: &str, tool: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("mcp_{server}_{tool}").chars().map(letter).collect()
}

/// Eight digits of a hash.
fn hash_of(text: &str) -> String {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(text));
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// The shortened name with a hash of server and tool. A long name of a server is cut first, because models
/// choose by the tool's name.
fn with_hash(name: &str, server: &str, tool: &str) -> String {
    let hash = hash_of(&format!("{server}\0{tool}"));
    let max_chars = NAME_CHARS - 1 - hash.len();
    let excess = name.chars().count().saturating_sub(max_chars);
    let server_chars = server.chars().count().saturating_sub(excess).max(SERVER_CHARS);
    let short_server: String = server.chars().take(server_chars).collect();
    let head: String = sanitise(&short_server, tool).chars().take(max_chars).collect();
    format!("{head}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn plain_tool_names_are_only_prefixed() {
        assert_eq!(
            assign(&[("files", "read_file"), ("x-1", "get-sum")]),
            ["mcp_files_read_file", "mcp_x-1_get-sum"]
        );
    }

    #[test]
    fn refused_characters_are_replaced() {
        assert_eq!(assign(&[("a", "get.the weather/ü")]), ["mcp_a_get_the_weather__"]);
        assert_eq!(assign(&[("a", "")]), ["mcp_a_"]);
    }

    #[test]
    fn long_names_are_shortened_and_stay_unique() {
        let (first, second) = ("t".repeat(100) + "1", "t".repeat(100) + "2");
        let names = assign(&[("a", &first), ("a", &second), ("a", &"t".repeat(58)), ("a", &"t".repeat(59))]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        assert_eq!(names[2], format!("mcp_a_{}", "t".repeat(58)), "64 characters fit");
    }

    #[test]
    fn a_long_server_name_leaves_the_tool_name_readable() {
        let names =
            assign(&[("github.com/modelcontextprotocol/servers/tree/main/src/github", "create_issue")]);
        assert!(
            names[0].starts_with("mcp_github_com_model") && names[0].contains("_create_issue_"),
            "{names:?}"
        );
        assert_eq!(names[0].len(), 64);
    }

    #[test]
    fn all_names_of_a_server_begin_alike() {
        for server in ["a", "x.y", "github.com/modelcontextprotocol/servers", "exactly16chars_x"] {
            let long = "t".repeat(100);
            let names = assign(&[(server, "a"), (server, "x.y"), (server, "x_y"), (server, &long)]);
            let beginning = beginning_of(server);
            assert!(names.iter().all(|name| name.starts_with(&beginning)), "{beginning} {names:?}");
        }
        assert_eq!(beginning_of("git"), "mcp_git_");
    }

    #[test]
    fn directory_names_of_different_servers_differ() {
        assert_eq!(directory_name("files-1"), "files-1");
        let names = ["Files", "files ", "../files", "a/b", "a.b", &"x".repeat(100)].map(directory_name);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| !name.contains(['/', '.'])), "{names:?}");
    }

    #[test]
    fn unshortened_names_do_not_depend_on_other_tools() {
        assert_eq!(unshortened("a", "x.y"), ["mcp_a_x.y", "mcp_a_x_y"]);
        assert_ne!(assign(&[("a", "x.y"), ("a", "x_y")])[1], unshortened("a", "x_y")[1], "its name does");
    }

    #[test]
    fn equal_names_become_unique_independent_of_their_order() {
        let tools = [("a", "x.y"), ("a", "x_y"), ("a_x", "y"), ("a", "z")];
        let names = assign(&tools);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        assert_eq!(names[3], "mcp_a_z");
        let mut reversed = tools;
        reversed.reverse();
        let mut assigned = assign(&reversed);
        assigned.reverse();
        assert_eq!(names, assigned);
    }
}
