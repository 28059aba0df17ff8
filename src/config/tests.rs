//! The configuration as operators see it: files, variables, flags and error messages.

use super::ranges::RANGES;
use super::*;
use crate::llm::Router;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn sources(env: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let mut env: super::expand::Variables = owned(env).into_iter().collect();
    env.entry("HOME".to_owned()).or_insert_with(|| "/home/u".to_owned());
    Sources { file: None, searched: Vec::new(), env, flags: owned(flags) }
}

/// Loads a file of this name and content.
fn load(name: &str, text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("writes");
    Config::load(&Sources { file: Some(path), ..sources(env, &[]) })
}

fn complaint(text: &str) -> String {
    let error = load("config.yml", text, &[]).expect_err(text).to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error
}

#[test]
fn the_defaults_alone_are_a_valid_configuration() {
    let config = Config::load(&sources(&[], &[])).expect("defaults hold");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.default_model, "demo");
    assert_eq!(config.data_dir, Path::new("/home/u/.local/state/nanoclaw"));
    assert_eq!(config.file, None);
}

#[test]
fn a_keyless_load_ignores_keys_that_are_not_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config.yml");
    let text = "models: [{id: m, api_url: \"https://x.test\", api_key: \"${NOT_SET}\"}, {id: n, api_url: \"https://x.test\", api_key: k}]\n";
    let sources = Sources { file: Some(path.clone()), ..sources(&[], &[]) };
    std::fs::write(&path, text).expect("writes");
    assert!(matches!(Config::load(&sources), Err(ConfigError::Unset { .. })));
    let config = Config::load_keyless(&sources).expect("holds");
    let keys: Vec<bool> = config.models.iter().map(|model| model.api_key.is_some()).collect();
    assert_eq!(keys, [false, true]);
    std::fs::write(&path, format!("{text}data_dir: \"${{NOT_SET}}\"\n")).expect("writes");
    assert!(matches!(Config::load_keyless(&sources), Err(ConfigError::Unset { .. })), "keys alone");
}

fn servers(text: &str, env: &[(&str, &str)]) -> (Value, Vec<String>) {
    let config = load("config.yml", text, env).unwrap_or_else(|error| panic!("{text}: {error}"));
    (serde_json::to_value(&config.mcp_servers).expect("JSON"), config.warnings.clone())
}

#[test]
fn a_pasted_block_of_a_desktop_client_is_read_in_every_form() {
    let block = r#"{
	"mcpServers": {
		"filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"]},
		"GitHub": {"type": "streamable-http", "serverUrl": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
	}
}
"#;
    let inner = block.trim().trim_start_matches('{').trim_end_matches('}').replace('\t', "  ");
    let forms = [
        block.to_owned(),
        inner.replace("  \"mcpServers\"", "\"mcpServers\""),
        format!("workers: 3\n{block}auth_mode: single\n"),
        concat!(
            "workers: 3\nmcpServers:\n  filesystem:\n    command: npx\n",
            "    args: [-y, \"@modelcontextprotocol/server-filesystem\", /srv/docs]\n",
            "  GitHub: {type: http, url: https://x.test/mcp, headers: {Authorization: \"Bearer ${TOKEN}\"}}\n"
        )
        .to_owned(),
    ];
    for text in forms {
        let (servers, warnings) = servers(&text, &[("TOKEN", "t-123")]);
        assert_eq!(servers["filesystem"]["command"], "npx", "{text}");
        assert_eq!(servers["filesystem"]["args"][2], "/srv/docs", "{text}");
        assert_eq!(servers["GitHub"]["url"], "https://x.test/mcp", "{text}");
        assert_eq!(servers["GitHub"]["type"], "http", "{text}");
        assert_eq!(servers["GitHub"]["headers"]["Authorization"], "***", "{text}");
        assert_eq!(warnings, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn fields_of_other_clients_are_translated_or_named_and_never_refused() {
    let text = r#"
mcpServers: {
  "a": {"command": "cmd", "args": ["/c", "npx", "-y", "x"], "disabled": false, "autoApprove": ["read"], "timeout": 90,
        "gallery": true, "env": {"PORT": 3000, "PASSWORD": "pa$$word", "NONE": null}},
  "b": {"url": "https://x.test/sse", "type": "SSE", "timeout": 45000, "alwaysAllow": [], "command": "", "isActive": false},
  "c": {"command": ["uvx", "y"], "environment": {"A": "b"}, "cwd": "/srv/c", "includeTools": ["t"], "trust": true},
  "d": {"command": "npx -y z", "cwd": "relative", "type": "stdio", "description": "text"},
  "e": {"url": "wss://x.test", "type": "ws"},
  "f": {"type": "stdio", "command": "node", "url": "https://x.test", "args": []}
}
"#;
    let (servers, warnings) = servers(text, &[]);
    let words = |name: &str| (servers[name]["command"].clone(), servers[name]["args"].clone());
    assert_eq!(words("a"), ("npx".into(), serde_json::json!(["-y", "x"])));
    assert_eq!(servers["a"]["timeout_s"], 90);
    assert_eq!(servers["a"]["env"], serde_json::json!({"PASSWORD": "***", "PORT": "***"}));
    assert_eq!((&servers["b"]["timeout_s"], &servers["b"]["type"]), (&45.into(), &"sse".into()));
    assert_eq!((&servers["b"]["disabled"], &servers["b"]["command"]), (&true.into(), &Value::Null));
    assert_eq!(words("c"), ("uvx".into(), serde_json::json!(["y"])));
    assert_eq!((&servers["c"]["cwd"], &servers["c"]["enabled_tools"][0]), (&"/srv/c".into(), &"t".into()));
    assert_eq!(words("d"), ("npx".into(), serde_json::json!(["-y", "z"])));
    assert_eq!(servers["e"]["disabled"], true);
    assert_eq!((&servers["f"]["command"], &servers["f"]["url"]), (&"node".into(), &Value::Null));
    let expected = [
        "mcpServers.a: not used here: autoApprove (the key approval decides which calls wait), gallery",
        "mcpServers.c: not used here: trust (the key approval decides which calls wait)",
        "mcpServers.d: not used here: cwd (it is no absolute path), description",
        "mcpServers.e: not used here: type 'ws'; the server is not started",
        "mcpServers.f: not used here: url",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn mistakes_in_mcp_servers_are_still_errors() {
    assert!(complaint("mcp_servers: {a: {comand: x}}").contains("did you mean 'command'?"));
    let twice = complaint("mcp_servers: {a: {command: x}}\nmcpServers: {a: {command: y}}");
    assert!(twice.contains("mcpServers.a: is in mcp_servers, too; keep one of them"), "{twice}");
    assert!(complaint("mcpServers: [a]").contains("mcpServers: must be a mapping of servers"));
    let unset = complaint("mcpServers: {a: {url: 'https://x.test', headers: {K: '${env:NOT_SET}'}}}");
    assert!(
        unset.contains("mcpServers.a.headers.K: the environment variable 'NOT_SET' is not set"),
        "{unset}"
    );
    let (servers, _) =
        servers("mcp_servers: {a.b: {command: x, cwd: /srv, disabled: true, timeout: 50}}", &[]);
    assert_eq!((&servers["a.b"]["timeout_s"], &servers["a.b"]["disabled"]), (&50.into(), &true.into()));
    assert!(
        complaint("mcp_servers: {a.b: {command: x, timeout_s: 0}}").contains("mcp_servers.a.b.timeout_s")
    );
}

#[test]
fn default_yml_equals_the_defaults_of_the_code() {
    let written: Value = serde_norway::from_str(DEFAULT_YML).expect("YAML");
    let coded = serde_json::to_value(ConfigKeys::default()).expect("JSON");
    assert_eq!(written, coded, "config/default.yml and the Rust defaults differ");
}

#[test]
fn default_yml_loads_as_the_default_configuration() {
    let loaded = load("config.yml", DEFAULT_YML, &[]).expect("loads");
    let expected = Config::load(&sources(&[], &[])).expect("defaults hold");
    assert_eq!(Config { file: None, ..loaded }, expected);
}

#[test]
fn example_yml_loads_and_needs_its_keys() {
    let env = [("DEEPSEEK_API_KEY", "sk-d"), ("GLM_API_KEY", "sk-g"), ("OPENAI_API_KEY", "sk-o")];
    let text = include_str!("../../config/example.yml");
    let config = load("config.yml", text, &env).expect("loads");
    assert_eq!(config.models.first().and_then(|m| m.api_key.clone()).expect("a key").reveal(), "sk-d");
    assert_eq!(config.models.len(), 5);
    Router::new(config.models.clone(), &config.limits).expect("models that can be served");
    let error = load("config.yml", text, &env[1..]).expect_err("a key is missing").to_string();
    assert!(error.contains("models[0].api_key") && error.contains("'DEEPSEEK_API_KEY'"), "{error}");
}

#[test]
fn the_commented_parts_of_example_yml_are_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("anthropic_key"), "sk-a\n").expect("writes");
    let yaml =
        include_str!("../../config/example.yml").replace("  # - id:", "  - id:").replace("  #   ", "    ");
    let yaml = yaml.replace("# title_model:", "title_model:");
    let dir = dir.path().to_str().expect("UTF-8");
    let env = [
        ("DEEPSEEK_API_KEY", "k"),
        ("GLM_API_KEY", "k"),
        ("OPENAI_API_KEY", "k"),
        ("CREDENTIALS_DIRECTORY", dir),
    ];
    let config = load("config.yml", &yaml, &env).expect("loads");
    assert_eq!((config.models.len(), config.title_model.as_deref()), (7, Some("local")));
    let claude = config.models.iter().find(|model| model.id == "claude-sonnet").expect("the example");
    assert_eq!(claude.key_from_file.as_ref().expect("a key").reveal(), "sk-a");
    assert!(config.models.iter().any(|model| model.text_tool_calls));
}

#[test]
fn stronger_config_layers_override_weaker_ones_per_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("c.yml");
    std::fs::write(&path, "workers: 2\nlimits: {page: 7, body_bytes: 5000000}\nlog: {level: warn}")
        .expect("writes");
    let env = [
        ("NANOCLAW_CONFIG", path.to_str().expect("UTF-8")),
        ("NANOCLAW_SERVER", "not a key"),
        ("NANOCLAW_TOKEN", "not a key either"),
        ("NANOCLAW_WORKERS", "3"),
        ("NANOCLAW_LIMITS__BODY_BYTES", "6000000"),
        ("NANOCLAW_ALLOWED_HOSTS", "[a.example, b.example]"),
    ];
    let config = Config::load(&sources(&env, &[("workers", "4"), ("limits.page", "9")])).expect("loads");
    assert_eq!((config.workers, config.limits.page, config.limits.body_bytes), (4, 9, 6_000_000));
    assert_eq!(config.log.level, LogLevel::Warn);
    assert_eq!(config.allowed_hosts, ["a.example", "b.example"]);
    assert_eq!(config.limits.connections, 12_000, "untouched keys of a touched part keep their defaults");
    assert_eq!(config.file.as_deref(), Some(path.as_path()));
}

#[test]
fn the_first_existing_config_file_is_used_and_a_named_one_must_exist() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("no.yml"), dir.path().join("yes.yml"));
    std::fs::write(&second, "workers: 5").expect("writes");
    let searched = vec![first.clone(), second.clone()];
    let config = Config::load(&Sources { searched: searched.clone(), ..sources(&[], &[]) }).expect("loads");
    assert_eq!(config.workers, 5);
    let named = Sources { file: Some(first), searched, ..sources(&[], &[]) };
    assert!(matches!(Config::load(&named), Err(ConfigError::Unreadable { .. })));
}

#[test]
fn toml_files_are_parsed_by_extension_and_expand_variables() {
    let config = load(
        "c.toml",
        "default_model = \"${M}\"\n[[models]]\nid = \"m1\"\nprovider = \"demo\"\n",
        &[("M", "m1")],
    );
    assert_eq!(config.expect("loads").default_model, "m1");
}

#[test]
fn variables_expand_in_numbers_and_texts() {
    let config =
        load("c.yml", "workers: ${N}\ndata_dir: $D/x$$y", &[("N", "7"), ("D", "/d")]).expect("loads");
    assert_eq!((config.workers, config.data_dir), (7, PathBuf::from("/d/x$y")));
}

#[test]
fn environment_values_are_not_expanded_again() {
    let env = [("NANOCLAW_DATA_DIR", "/a$b")];
    assert_eq!(Config::load(&sources(&env, &[])).expect("loads").data_dir, Path::new("/a$b"));
}

#[test]
fn an_unknown_key_is_reported_with_the_nearest_key() {
    for (text, key, meant) in [
        ("listn: x", "'listn'", "'listen'"),
        ("limits: {body_byte: 5}", "'limits.body_byte'", "'body_bytes'"),
        ("models: [{id: a, api_kye: b}]", "'models[0].api_kye'", "'api_key'"),
        ("code_execution: {levels: {strict: {timeout_s: 1}}}", "timeout_s", "'timeout_ms'"),
        ("code_execution: {max_paralel: 1}", "'code_execution.max_paralel'", "'max_parallel'"),
    ] {
        let error = complaint(text);
        assert!(error.contains(key) && error.contains(meant) && error.contains("config.yml"), "{error}");
    }
    let error = Config::load(&sources(&[("NANOCLAW_WORKRES", "1")], &[])).expect_err("unknown").to_string();
    assert!(
        error.contains("'workres'") && error.contains("'workers'") && error.contains("environment"),
        "{error}"
    );
}

#[test]
fn errors_for_wrong_types_and_values_name_the_allowed_ones() {
    for (text, words) in [
        ("workers: many", ["workers: must be a whole number", "'many'"]),
        ("models: 5", ["models: must be a list", "'5'"]),
        ("limits: 5", ["limits: must be a mapping of keys", "'5'"]),
        ("workers: 0", ["workers: '0'", "from 1 to 1024"]),
        ("limits: {page: -1}", ["limits.page", "-1"]),
        ("limits: {header_bytes: 100}", ["limits.header_bytes: '100'", "8192"]),
        ("limits: {page: 99, page_max: 50}", ["limits.page: '99'", "limits.page_max = 50"]),
        (
            "bash: {allow_patterns: [ls, '(']}",
            ["bash.allow_patterns[1]: '('", "regular expression: unclosed group"],
        ),
        ("bash: {deny_patterns: ['[']}", ["bash.deny_patterns[0]: '['", "must be a regular expression"]),
        ("bash: {allowed_env: ['A=B']}", ["bash.allowed_env[0]: 'A=B'", "name of an environment variable"]),
        (
            "web: {allow_private_addresses: ['::1', '10.0.0.0/40']}",
            ["web.allow_private_addresses[1]: '10.0.0.0/40'", "range"],
        ),
        ("web: {timeout_s: 0}", ["web.timeout_s: '0'", "from 1"]),
        ("web_search: {provider: google}", ["web_search.provider", "duckduckgo"]),
        ("web_search: {provider: brave}", ["web_search.api_key", "needed by this provider"]),
        ("web_search: {provider: tavily, api_key: ' '}", ["web_search.api_key", "${API_KEY}"]),
        ("web_search: {provider: searxng}", ["web_search.base_url", "your instance"]),
        ("web_search: {base_url: 'http://me:pw@x/'}", ["web_search.base_url: '***'", "without user name"]),
        ("web_search: {region: 'a b'}", ["web_search.region: 'a b'", "us-en"]),
        ("weather: {base_url: 'ftp://x'}", ["weather.base_url: 'ftp://x'", "http://"]),
        ("log: {level: inof}", ["log.level", "'info'"]),
        ("listen: 0.0.0.0:80", ["listen: '0.0.0.0:80'", "auth_mode: multi"]),
        ("default_model: gpt", ["default_model: 'gpt'", "demo"]),
        ("title_model: gpt", ["title_model: 'gpt'", "one of models: demo"]),
        ("models: []", ["models", "at least one"]),
        ("models: [{id: a}]", ["models[0].api_url", "needed"]),
        ("models: [{id: a, api_url: 'ftp://x'}]", ["models[0].api_url: 'ftp://x'", "https://"]),
        ("models: [{name: x}]", ["models[0].id", "missing"]),
        ("allowed_origins: ['null']", ["allowed_origins[0]: 'null'", "scheme"]),
        ("allowed_hosts: ['http://x/']", ["allowed_hosts[0]", "host name"]),
        (
            "code_execution: {levels: {strict: {timeout_ms: 0}}}",
            ["code_execution.levels.strict.timeout_ms", "from 1"],
        ),
        (
            "code_execution: {default_strictness: lenient, max_strictness_allowed: standard}",
            [
                "code_execution.default_strictness: 'lenient'",
                "strict, standard (code_execution.max_strictness_allowed",
            ],
        ),
        (
            "code_execution: {max_strictness_allowed: strict}",
            ["code_execution.default_strictness: 'standard'", "one of strict (code_execution.max_"],
        ),
        (
            "code_execution: {max_strictness_allowed: shell}",
            ["code_execution.max_strictness_allowed: 'shell'", "strict, standard, lenient"],
        ),
        ("code_execution: {default_strictness: loose}", ["code_execution.default_strictness", "loose"]),
        (
            "code_execution: {extra_allowed_modules: {standard: [numpy, 'a b']}}",
            ["code_execution.extra_allowed_modules.standard[1]: 'a b'", "Python module"],
        ),
        ("workers: 1\nworkers: 2", ["not valid YAML", "duplicate"]),
        ("workers: [", ["not valid YAML", "line"]),
        ("models: [{id: a, id: b}]", ["not valid YAML", "duplicate"]),
    ] {
        let error = complaint(text);
        assert!(words.iter().all(|word| error.contains(word)), "{text}\n  gave: {error}");
    }
}

#[test]
fn p9_a_networked_shell_needs_accounts_or_a_unix_socket() {
    let shell = "code_execution: {shell_network: true}\n";
    assert!(complaint(shell).contains("approve its own tool calls"));
    for fine in ["auth_mode: multi\n", "listen: unix:/run/nanoclaw.sock\n"] {
        assert!(load("config.yml", &format!("{shell}{fine}"), &[]).is_ok(), "{fine}");
    }
}

#[test]
fn all_bad_values_are_reported_at_once() {
    let error = load("c.yml", "workers: 0\nlisten: x\nmax_iterations: 0", &[]).expect_err("three faults");
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
}

#[test]
fn without_demo_the_first_model_is_the_default() {
    let text = "models: [{id: a, api_url: 'http://127.0.0.1:1/v1'}, {id: b, provider: demo}]";
    assert_eq!(load("c.yml", text, &[]).expect("loads").default_model, "a");
    assert!(complaint("models: [{id: a, provider: demo}, {id: a, provider: demo}]").contains("unique"));
}

#[test]
fn the_data_directory_follows_systemd_then_xdg_then_home() {
    let dir = |env: &[(&str, &str)]| Config::load(&sources(env, &[])).map(|c| c.data_dir);
    let both = [("STATE_DIRECTORY", "/var/lib/n:/x"), ("XDG_STATE_HOME", "/s")];
    assert_eq!(dir(&both).expect("loads"), Path::new("/var/lib/n"));
    assert_eq!(dir(&both[1..]).expect("loads"), Path::new("/s/nanoclaw"));
    assert_eq!(
        dir(&[("XDG_STATE_HOME", "relative")]).expect("loads"),
        Path::new("/home/u/.local/state/nanoclaw")
    );
    assert_eq!(dir(&[("NANOCLAW_DATA_DIR", "~/d")]).expect("loads"), Path::new("/home/u/d"));
    assert!(dir(&[("HOME", "")]).expect_err("nowhere").to_string().contains("data_dir"));
}

#[test]
fn p9_config_output_and_errors_hide_secrets() {
    let env = [("K", "sk-secret")];
    let config =
        load("c.yml", "models: [{id: a, api_url: 'https://x/v1', api_key: '${K}'}]", &env).expect("loads");
    let yaml = config.to_yaml();
    assert!(yaml.contains("***") && !yaml.contains("sk-secret"), "{yaml}");
    assert!(!format!("{config:?}").contains("sk-secret"));
    let error = complaint("models: [{id: a, api_key: [sk-secret]}]");
    assert!(!error.contains("sk-secret"), "{error}");
}

#[test]
fn p9_config_output_hides_the_environment_of_a_command_tool() {
    let text = "tools: [{name: t, description: d, command: c, env: {KEY: '${K}'}}]";
    let config = load("c.yml", text, &[("K", "sk-secret")]).expect("loads");
    let yaml = config.to_yaml();
    assert!(yaml.contains("KEY: '***'") && !yaml.contains("sk-secret"), "{yaml}");
    assert!(!format!("{config:?}").contains("sk-secret"));
    let secrets = config.tools.commands.iter().flat_map(crate::tools::CommandToolOptions::secrets);
    assert_eq!(secrets.map(crate::domain::secret::Secret::reveal).collect::<Vec<_>>(), ["sk-secret"]);
}

#[test]
fn p7_an_mcp_server_in_multi_mode_needs_shared_true() {
    let multi = "auth_mode: multi\nmcp_servers: {one: {command: c}, two: {command: c, shared: true}}";
    let error = complaint(multi);
    assert!(error.contains("mcp_servers.one.shared") && error.contains("say shared: true"), "{error}");
    assert!(!error.contains("mcp_servers.two"), "{error}");
    load("c.yml", &multi.replace("c}, two", "c, shared: true}, two"), &[]).expect("it is meant");
    load("c.yml", &multi.replace("multi", "single"), &[]).expect("one account shares with nobody");
}

#[test]
fn the_output_of_config_show_is_a_valid_configuration() {
    let config = Config::load(&sources(&[], &[])).expect("defaults hold");
    let again = load("config.yml", &config.to_yaml(), &[]).expect("loads what it printed");
    assert_eq!(Config { file: None, ..again }, config);
}

/// The names of the numbers in each section.
fn numbers(section: &str, values: &Value, sections: &mut Vec<(String, Vec<String>)>) {
    let Some(fields) = values.as_object() else { return };
    let names = fields.iter().filter(|(_, value)| value.is_u64()).map(|(name, _)| name.clone());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    sections.extend((!names.is_empty()).then(|| (section.to_owned(), names)));
    for (name, value) in fields {
        numbers(&super::expand::join_key(section, name), value, sections);
    }
}

#[test]
fn every_number_has_a_range() {
    let mut found = Vec::new();
    numbers("", &serde_json::to_value(ConfigKeys::default()).expect("JSON"), &mut found);
    found.sort();
    let mut listed: Vec<(String, Vec<String>)> = Vec::new();
    for (section, ranges) in RANGES {
        let mut names: Vec<String> = ranges.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort_unstable();
        listed.push(((*section).to_owned(), names));
    }
    listed.sort();
    assert_eq!(listed, found);
}

/// A bound as `default.yml` writes it: `5` or `64 KiB`.
fn written_bound(name: &str, bound: u64) -> String {
    let units = [("EiB", 60), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bound >= 1 << shift && bound.is_multiple_of(1 << shift));
    match unit.filter(|_| name.ends_with("bytes")) {
        Some((unit, shift)) => format!("{} {unit}", bound >> shift),
        None => bound.to_string(),
    }
}

/// The line of a key with the comment lines above it.
fn documentation(path: &[&str], name: &str) -> String {
    let lines: Vec<&str> = DEFAULT_YML.lines().collect();
    let mut at = 0;
    for (depth, key) in path.iter().chain([&name]).enumerate() {
        let start = format!("{}{key}:", "  ".repeat(depth));
        let found = lines.iter().skip(at).position(|line| line.starts_with(&start));
        at += found.unwrap_or_else(|| panic!("default.yml has no '{start}' in {path:?}"));
    }
    let above = lines.get(..at).expect("lines").iter().rev();
    let comments = above.take_while(|line| line.trim_start().starts_with('#')).copied();
    lines.get(at).copied().into_iter().chain(comments).collect::<Vec<_>>().join("\n")
}

#[test]
fn default_yml_states_the_range_of_every_number() {
    // The other levels have the same keys as strict.
    let levels = ["standard", "lenient", "shell"].map(|level| format!("code_execution.levels.{level}"));
    for (section, ranges) in RANGES.iter().filter(|(section, _)| !levels.iter().any(|level| level == section))
    {
        let path: Vec<&str> = section.split('.').filter(|name| !name.is_empty()).collect();
        for (name, range) in *ranges {
            let range =
                format!("[{}–{}]", written_bound(name, *range.start()), written_bound(name, *range.end()));
            let text = documentation(&path, name);
            assert!(text.contains(&range), "default.yml must say {range} of {section} {name}:\n{text}");
        }
    }
}

#[test]
fn a_retention_time_needs_a_unit_or_the_word_never() {
    let config = load(
        "config.yml",
        "retention: {deltas: never, events: 90s, jobs: 30d, job_files: 7d, files: 12h}",
        &[],
    )
    .expect("loads");
    let written = serde_json::to_value(&config.retention).expect("JSON");
    assert_eq!(
        written,
        serde_json::json!({"deltas": "never", "events": "90s", "jobs": "30d", "job_files": "7d", "files": "12h"})
    );
    for text in ["retention: {jobs: 30}", "retention: {jobs: 30 days}", "retention: {jobs: -1d}"] {
        let error = complaint(text);
        assert!(error.contains("retention.jobs") && error.contains("30d"), "{error}");
    }
    let env = [("NANOCLAW_RETENTION__JOBS", "30")];
    let error = load("config.yml", "", &env).expect_err("no unit").to_string();
    assert!(error.contains("number with its unit"), "{error}");
}
