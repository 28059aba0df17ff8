//! Package runners: programs such as `npx` that download a server and then run it. They need the network, and
//! a directory that outlives them and from which they may run programs.

use std::path::Path;

/// Variables of this process that a package runner gets: the way to the registry, and nothing else.
pub(super) const REGISTRY_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
];

/// Whether the command downloads what it runs.
pub(super) fn is_package_runner(command: &str, arguments: &[String]) -> bool {
    let name = program_name(command);
    let mut words = arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match name.as_str() {
        "npx" | "pnpx" | "bunx" | "uvx" | "dnx" => true,
        "npm" => matches!(first, "exec" | "x" | "create" | "init"),
        "pnpm" | "yarn" => matches!(first, "dlx" | "exec" | "create"),
        "bun" => matches!(first, "x" | "create"),
        "uv" => matches!((first, second), ("run" | "x", _) | ("tool", "run")) || names_directory(arguments),
        "pipx" | "deno" => first == "run",
        _ => false,
    }
}

/// `uv --directory DIR run …`: the first word is the directory.
fn names_directory(arguments: &[String]) -> bool {
    let has_option = arguments.iter().any(|word| matches!(word.as_str(), "--directory" | "--project"));
    has_option && arguments.iter().any(|word| word == "run")
}

/// The file name of a program without the endings of Windows.
pub(super) fn program_name(command: &str) -> String {
    let name = Path::new(command).file_name().map(|name| name.to_string_lossy().to_lowercase());
    let name = name.unwrap_or_default();
    let endings = [".cmd", ".exe", ".bat"];
    endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_runners_are_recognised_by_program_and_first_words() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-memory", true),
            ("/home/me/.nvm/versions/node/v20/bin/npx server", true),
            ("npx.cmd -y server", true),
            ("uvx mcp-server-fetch", true),
            ("uv run server.py", true),
            ("uv tool run mcp-server-fetch", true),
            ("uv --directory /srv/weather run weather.py", true),
            ("uv pip list", false),
            ("npm exec -- server", true),
            ("npm start", false),
            ("bun x server", true),
            ("bun server.ts", false),
            ("deno run -A jsr:@me/server", true),
            ("pipx run server", true),
            ("node server.js", false),
            ("python3 -m server", false),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().expect("a command");
            assert_eq!(is_package_runner(&command, &words.collect::<Vec<_>>()), expected, "{line}");
        }
    }
}
