//! Keys of the original `NanoClaw`'s `config.yml` that this server lacks. They are translated where there is
//! an equal, else left out, and one message says what became of each.

use super::error::ConfigError;
use figment::value::{Dict, Value};

/// Keys of the original without an equal here, and what to know about them.
const UNUSED: [(&str, &str); 10] = [
    ("db_type", NO_DATABASE),
    ("db_host", NO_DATABASE),
    ("db_port", NO_DATABASE),
    ("db_user", NO_DATABASE),
    ("db_password", NO_DATABASE),
    ("db_name", NO_DATABASE),
    ("db_sqlite_file", NO_DATABASE),
    (
        "jwt_secret",
        "not used, because the server makes its own key for sessions; remove it, and users log in again",
    ),
    ("sub_agent.max_tokens", "not used, because sub-agents have the max_tokens of their job; remove it"),
    ("sub_agent.max_agents", "not used, because a call has five agents at most; remove it"),
];
const NO_DATABASE: &str = "not used, because the data is in one file in data_dir (earlier conversations are not \
                           taken over); remove it";
/// Translates the original's keys. Returns a line for each key that was found, without any value that may be
/// secret.
pub(crate) fn translate(root: &mut Dict, origin: &str) -> Result<Vec<String>, ConfigError> {
    let mut lines = Vec::new();
    translate_ports(root, origin, &mut lines)?;
    translate_sub_agent(root, &mut lines);
    give_models_the_defaults(root, &mut lines);
    remove_unused(root, &mut lines);
    if !lines.is_empty() {
        remove_empty_values(root, &mut lines);
    }
    Ok(lines)
}

fn translate_ports(root: &mut Dict, origin: &str, lines: &mut Vec<String>) -> Result<(), ConfigError> {
    if let Some(value) = root.remove("backend_port") {
        let port = port("backend_port", &value, origin)?;
        let listen = format!("127.0.0.1:{port}");
        if root.contains_key("listen") {
            lines.push("backend_port: not used, because listen is set; remove it".to_owned());
        } else {
            lines.push(format!(
                "backend_port: read as listen: {listen}, for clients on this machine; write that instead"
            ));
            root.insert("listen".to_owned(), Value::from(listen));
        }
    }
    if let Some(value) = root.remove("frontend_port") {
        let port = port("frontend_port", &value, origin)?;
        let origins = ["localhost", "127.0.0.1"].map(|host| format!("http://{host}:{port}"));
        let [first, second] = &origins;
        let list = format!("allowed_origins: [\"{first}\", \"{second}\"]");
        if root.contains_key("allowed_origins") {
            lines.push(format!(
                "frontend_port: not used, because allowed_origins is set (the front end needs {list}); remove it"
            ));
        } else {
            lines.push(format!(
                "frontend_port: read as {list}, for the front end's own server; write that instead"
            ));
            root.insert("allowed_origins".to_owned(), Value::from(origins.to_vec()));
        }
    }
    Ok(())
}

fn port(key: &str, value: &Value, origin: &str) -> Result<u16, ConfigError> {
    let number = value.to_u128().and_then(|number| u16::try_from(number).ok());
    let text = || value.as_str().and_then(|text| text.trim().parse().ok());
    number.or_else(text).filter(|port| *port > 0).ok_or_else(|| ConfigError::Type {
        key: key.to_owned(),
        reason: "must be a port, 1 to 65535".to_owned(),
        origin: origin.to_owned(),
    })
}

fn translate_sub_agent(root: &mut Dict, lines: &mut Vec<String>) {
    let Some(Value::Dict(_, section)) = root.get_mut("sub_agent") else { return };
    let Some(timeout) = section.remove("timeout") else { return };
    if section.contains_key("timeout_s") {
        lines.push("sub_agent.timeout: not used, because sub_agent.timeout_s is set; remove it".to_owned());
    } else {
        section.insert("timeout_s".to_owned(), timeout);
        lines.push("sub_agent.timeout: read as sub_agent.timeout_s; write that instead".to_owned());
    }
}

/// Old versions of the original had one address and one key for all models.
fn give_models_the_defaults(root: &mut Dict, lines: &mut Vec<String>) {
    for (names, key) in
        [(["api_url", "default_api_url"], "api_url"), (["api_key", "default_api_key"], "api_key")]
    {
        for name in names {
            let Some(value) = root.remove(name) else { continue };
            lines.push(format!("{name}: read as models[].{key} of each model without one; write it there"));
            let Some(Value::Array(_, models)) = root.get_mut("models") else { continue };
            for model in models {
                if let Value::Dict(_, model) = model {
                    model.entry(key.to_owned()).or_insert_with(|| value.clone());
                }
            }
        }
    }
}

fn remove_unused(root: &mut Dict, lines: &mut Vec<String>) {
    for (key, advice) in UNUSED {
        let removed = match key.split_once('.') {
            None => root.remove(key),
            Some((section, name)) => match root.get_mut(section) {
                Some(Value::Dict(_, section)) => section.remove(name),
                _ => None,
            },
        };
        if removed.is_some() {
            lines.push(format!("{key}: {advice}"));
        }
    }
}

/// The original reads an empty value as the default.
fn remove_empty_values(root: &mut Dict, lines: &mut Vec<String>) {
    root.retain(|_, value| !matches!(value, Value::Empty(..)));
    for section in ["sub_agent", "code_execution"] {
        if let Some(Value::Dict(_, section)) = root.get_mut(section) {
            section.retain(|_, value| !matches!(value, Value::Empty(..)));
        }
    }
    if root.get("default_model").is_some_and(|model| model.as_str() == Some("")) {
        root.remove("default_model");
        lines.push("default_model: is empty, so the first of models is the default; remove it".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::config::expand::Variables;
    use crate::config::{Config, ConfigError, Sources};

    fn load(text: &str) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yml");
        std::fs::write(&path, text).expect("writes");
        let env = Variables::from([("HOME".to_owned(), "/home/u".to_owned())]);
        Config::load(&Sources { file: Some(path), searched: Vec::new(), env, flags: Vec::new() })
    }

    const ORIGINAL: &str = r#"
backend_port: 3000
frontend_port: 4000
max_iterations: 15
tool_max_workers: 4
sub_agent:
  max_iterations: 3
  max_tokens: 4096
  max_agents: 5
  max_concurrency: 3
  timeout: 90
models:
  - id: deepseek-chat
    name: DeepSeek V3
    api_url: https://api.deepseek.com/chat/completions
    api_key: sk-xxx
default_model: ""
workspace_root: ./workspaces
auth_mode: single
jwt_secret: topsecret
code_execution:
  default_strictness: standard
  extra_allowed_modules:
    standard: [numpy]
    strict: []
db_type: mysql
db_host: localhost
db_port: 3306
db_user: root
db_password: "hunter$2"
db_name: nano_claw
db_sqlite_file: nano_claw.db
"#;

    #[test]
    fn a_configuration_of_the_original_is_read_and_each_of_its_keys_is_named_once() {
        let config = load(ORIGINAL).expect("it starts this server");
        assert_eq!(config.listen.to_string(), "127.0.0.1:3000");
        assert_eq!(config.allowed_origins, ["http://localhost:4000", "http://127.0.0.1:4000"]);
        assert_eq!((config.sub_agent.timeout_s, config.default_model.as_str()), (90, "deepseek-chat"));
        let all = config.original_keys.join("\n");
        for key in [
            "backend_port",
            "frontend_port",
            "sub_agent.timeout",
            "sub_agent.max_tokens",
            "sub_agent.max_agents",
            "default_model",
            "jwt_secret",
            "db_type",
            "db_host",
            "db_port",
            "db_user",
            "db_password",
            "db_name",
            "db_sqlite_file",
        ] {
            let named = config.original_keys.iter().filter(|line| line.starts_with(&format!("{key}: ")));
            assert_eq!(named.count(), 1, "{key}: {all}");
        }
        assert_eq!(config.original_keys.len(), 14, "{all}");
        assert!(!all.contains("topsecret") && !all.contains("hunter"), "{all}");
        assert!(load("listen: 127.0.0.1:1\n").expect("ours").original_keys.is_empty());
    }

    #[test]
    fn keys_of_this_server_win_over_those_of_the_original() {
        let text = "listen: 127.0.0.1:1\nbackend_port: 3000\nfrontend_port: 4000\n\
                    allowed_origins: [\"https://ui.example\"]\nsub_agent: {timeout: 5, timeout_s: 6}\n";
        let config = load(text).expect("valid");
        assert_eq!((config.listen.to_string().as_str(), config.sub_agent.timeout_s), ("127.0.0.1:1", 6));
        assert_eq!(config.allowed_origins, ["https://ui.example"]);
        assert!(
            config.original_keys.iter().all(|line| line.contains("not used")),
            "{:?}",
            config.original_keys
        );
    }

    #[test]
    fn a_key_of_the_original_with_a_bad_value_is_an_error() {
        for text in ["backend_port: 0", "backend_port: [1]", "frontend_port: abc", "backend_port: 70000"] {
            let error = load(text).expect_err(text).to_string();
            assert!(error.contains("_port: must be a port"), "{error}");
        }
        assert!(matches!(load("backend_prot: 3000"), Err(ConfigError::UnknownKey { .. })));
    }

    #[test]
    fn one_address_and_key_for_all_models_are_passed_on() {
        let text =
            "api_url: https://a.test/v1\ndefault_api_key: k\nmodels: [{id: x}, {id: y, api_key: own}]\n";
        let config = load(text).expect("valid");
        let models: Vec<_> = config.models.iter().map(|model| model.api_url.as_deref()).collect();
        assert_eq!(models, [Some("https://a.test/v1"); 2]);
        assert!(config.models[1].api_key.as_ref().is_some_and(|key| key.reveal() == "own"));
    }
}
