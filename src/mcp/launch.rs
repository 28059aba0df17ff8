//! What the program of a server is started with: its words, its environment and the paths that it may use.

use super::options::{McpSandbox, McpServerOptions};
use super::package_runner::{REGISTRY_VARIABLES, is_package_runner, program_name};
use super::path_grants::{PathGrants, ProtectedPaths};
use super::tool_names::directory_name;
use crate::ports::ProcessSpec;
use std::path::{Path, PathBuf};

/// The search path inside the sandbox.
const SANDBOX_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables of this process that a program outside of the sandbox gets. Others may hold keys of models.
const USER_VARIABLES: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TERM",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DOCKER_HOST",
];

/// Programs that only ask a service of the machine, which may do everything.
const CONTAINER_RUNNERS: [&str; 2] = ["docker", "podman"];

/// Why a program does not get the network that its options ask for.
const NO_NETWORK: &str = "the network: with auth_mode: single it could call this server and approve tool calls, and this \
                          kernel cannot close the port (Linux 6.7 can); set auth_mode: multi, or listen on unix:/path";

/// What the programs of servers get from this process.
#[derive(Debug, Clone)]
pub struct McpHost {
    /// The store and its keys; closed to servers, except for a directory of each below `mcp/`.
    pub data_dir: PathBuf,
    /// The directory of files that nodes share, if there are several.
    pub shared_dir: Option<PathBuf>,
    /// Reads a variable of this process.
    pub variable: fn(&str) -> Option<String>,
    /// TCP ports of this process at which every local client may do everything: closed to servers.
    pub own_ports: Vec<u16>,
    /// Whether the sandbox can close ports.
    pub can_close_ports: bool,
}

/// What the program of a server may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpAccess {
    /// What it may use beyond its own files; `None` if nothing.
    pub access: Option<String>,
    /// Paths that its command line names and that stay closed, with the reason.
    pub refused: Vec<String>,
    /// Whether its program exists.
    pub is_installed: bool,
}

/// What the program of this server may use; nothing for an address.
pub fn program_access(name: &str, options: &McpServerOptions, host: &McpHost) -> McpAccess {
    if options.command.is_none() {
        return McpAccess { is_installed: true, ..McpAccess::default() };
    }
    let launch = Launch::new(name, options, host);
    let access = launch.describe_access();
    let program = &launch.spec.program;
    let search_path = (host.variable)("PATH").unwrap_or_default();
    let is_installed = if program.components().count() > 1 {
        program.is_file() || !program.is_absolute()
    } else {
        find_in(SANDBOX_PATH, program).or_else(|| find_in(&search_path, program)).is_some()
    };
    McpAccess { access, refused: launch.refused, is_installed }
}

/// A program to start.
pub(super) struct Launch {
    pub(super) spec: ProcessSpec,
    /// For the operator: what the program asks for and does not get, with the reason.
    pub(super) refused: Vec<String>,
    /// Whether it may use the network and the ports of this process stay open to it.
    reaches_own_ports: bool,
}

impl Launch {
    pub(super) fn new(name: &str, options: &McpServerOptions, host: &McpHost) -> Self {
        let home = (host.variable)("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let arguments: Vec<String> =
            options.args.iter().map(|argument| below_home(argument, home.as_deref())).collect();
        let command = below_home(options.command.as_deref().unwrap_or_default(), home.as_deref());
        let own_variables = options.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        let spec = ProcessSpec {
            program: command.into(),
            arguments,
            environment: own_variables.collect(),
            workdir: options.workdir.clone().or_else(|| options.cwd.clone()),
            writable: options.writable,
            readable: options.readable.clone(),
            network: options.network.unwrap_or(false),
            ..ProcessSpec::default()
        };
        if options.sandbox == McpSandbox::Off {
            return Self::outside(spec, host);
        }
        let paths = ProtectedPaths {
            data_dir: &host.data_dir,
            shared_dir: host.shared_dir.as_deref(),
            home: home.as_deref(),
        };
        let grants = PathGrants::of(options, &spec.arguments, &paths);
        let mut launch = Self { spec, refused: grants.refused, reaches_own_ports: false };
        launch.spec.readable.extend(grants.readable);
        launch.spec.writable_paths = grants.writable;
        launch.spec.program_dirs = grants.program_dirs;
        launch.find_program(host, home.as_deref());
        let command = launch.spec.program.to_string_lossy().into_owned();
        if CONTAINER_RUNNERS.contains(&program_name(&command).as_str()) {
            let reason =
                format!("'{command}' cannot reach its service from the sandbox: it needs sandbox: off");
            launch.refused.push(reason);
        }
        if is_package_runner(&command, &launch.spec.arguments) {
            launch.spec.network = options.network.unwrap_or(true);
            launch.add_own_directory(host.data_dir.join("mcp").join(directory_name(name)), host);
        }
        launch.close_ports(host, options.network == Some(true));
        launch
    }

    /// Keeps a program with the network from the ports of this process. Where the sandbox cannot, only a
    /// package runner has the network: it would not start without.
    fn close_ports(&mut self, host: &McpHost, is_requested: bool) {
        if !self.spec.network || host.own_ports.is_empty() {
            return;
        }
        if host.can_close_ports {
            self.spec.closed_ports.clone_from(&host.own_ports);
        } else if is_requested {
            self.spec.network = false;
            self.refused.push(NO_NETWORK.to_owned());
        } else {
            self.reaches_own_ports = true;
        }
    }

    /// A program with all rights of this process's user.
    fn outside(mut spec: ProcessSpec, host: &McpHost) -> Self {
        for name in USER_VARIABLES.iter().chain(REGISTRY_VARIABLES) {
            add_variable(&mut spec.environment, name, (host.variable)(name));
        }
        spec.without_sandbox = true;
        Self { spec, refused: Vec::new(), reaches_own_ports: true }
    }

    /// A directory that outlives the program, as its home: caches and programs of the package runner.
    fn add_own_directory(&mut self, dir: PathBuf, host: &McpHost) {
        let environment = &mut self.spec.environment;
        add_variable(environment, "HOME", Some(dir.display().to_string()));
        add_variable(environment, "npm_config_update_notifier", Some("false".to_owned()));
        for name in REGISTRY_VARIABLES {
            let value = (host.variable)(name);
            let path = value.as_deref().map(Path::new);
            let is_file = path.is_some_and(|path| path.is_absolute() && path.is_file());
            if let Some(path) = path.filter(|path| is_file && !path.starts_with("/etc/ssl/certs")) {
                self.spec.readable.push(path.to_owned());
            }
            add_variable(environment, name, value);
        }
        self.spec.own_dir = Some(dir);
    }

    /// A program that only this process's search path has, or that lies in a home directory, is opened with
    /// its installation.
    fn find_program(&mut self, host: &McpHost, home: Option<&Path>) {
        let program = &self.spec.program;
        let is_name = program.components().count() == 1 && !program.is_absolute();
        let found = if is_name {
            let is_in = |path: &str| find_in(path, program).is_some();
            let outer_path = (host.variable)("PATH").unwrap_or_default();
            if is_in(SANDBOX_PATH) { None } else { find_in(&outer_path, program) }
        } else {
            Some(program.clone()).filter(|program| program.is_file())
        };
        let Some(found) = found else { return };
        self.spec.readable.extend(installation(&found, home));
        if let Some(dir) = found.parent().filter(|_| is_name) {
            let path = format!("{}:{SANDBOX_PATH}", dir.display());
            add_variable(&mut self.spec.environment, "PATH", Some(path));
            self.spec.program.clone_from(&found);
        }
    }

    /// What the program may use beyond its own files, for the operator; `None` if nothing.
    fn describe_access(&self) -> Option<String> {
        let spec = &self.spec;
        if spec.without_sandbox {
            return Some("everything that this user may do: it runs without the sandbox".to_owned());
        }
        let mut parts: Vec<String> = Vec::new();
        let network =
            if self.reaches_own_ports { "the network, this server included" } else { "the network" };
        parts.extend(spec.network.then(|| network.to_owned()));
        let mut list = |what: &str, paths: &mut dyn Iterator<Item = &PathBuf>| {
            let shown: Vec<String> = paths.map(|path| path.display().to_string()).collect();
            if !shown.is_empty() {
                parts.push(format!("{what} {}", shown.join(", ")));
            }
        };
        list("its own directory", &mut spec.own_dir.iter());
        list("writes and runs programs in", &mut spec.program_dirs.iter());
        let workdir = spec.workdir.iter().filter(|_| spec.writable);
        list("writes", &mut workdir.chain(&spec.writable_paths));
        list("reads", &mut spec.readable.iter());
        if parts.is_empty() { None } else { Some(parts.join("; ")) }
    }
}

/// Adds a variable unless the operator has set it.
fn add_variable(environment: &mut Vec<(String, String)>, name: &str, value: Option<String>) {
    let is_set = environment.iter().any(|(known, _)| known == name);
    if let Some(value) = value.filter(|value| !is_set && !value.is_empty()) {
        environment.push((name.to_owned(), value));
    }
}

/// `~/x` of this process's user; inside the sandbox the home directory is another one.
fn below_home(word: &str, home: Option<&Path>) -> String {
    let rest = if word == "~" { Some("") } else { word.strip_prefix("~/") };
    match (rest, home) {
        (Some(rest), Some(home)) => home.join(rest).display().to_string(),
        _ => word.to_owned(),
    }
}

fn find_in(search_path: &str, program: &Path) -> Option<PathBuf> {
    let dirs = search_path.split(':').map(Path::new).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// The directories of a program outside of the system's: its own, the libraries beside it, and the same of
/// what it is a link to.
fn installation(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut trees: Vec<PathBuf> = Vec::new();
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    for path in [program, &real] {
        let Some(dir) = path.parent() else { continue };
        let prefix = dir.parent().filter(|_| dir.ends_with("bin"));
        let is_environment = prefix.is_some_and(|prefix| prefix.join("pyvenv.cfg").is_file());
        let tree = if is_environment { prefix.unwrap_or(dir) } else { dir };
        // `~/.local/lib` belongs to many programs.
        let libraries = prefix.filter(|prefix| !prefix.ends_with(".local")).map(|prefix| prefix.join("lib"));
        trees.extend([Some(tree.to_owned()), libraries].into_iter().flatten());
    }
    trees.retain(|tree| {
        tree.is_dir() && !["/usr", "/bin", "/sbin", "/opt"].iter().any(|root| tree.starts_with(root))
    });
    trees.retain(|tree| home.is_none_or(|home| !home.starts_with(tree)));
    trees.dedup();
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(variable: fn(&str) -> Option<String>) -> McpHost {
        McpHost {
            data_dir: PathBuf::from("/data"),
            shared_dir: None,
            variable,
            own_ports: Vec::new(),
            can_close_ports: true,
        }
    }

    fn launch(name: &str, yaml: &str) -> Launch {
        let variable = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "HTTPS_PROXY" => Some("http://proxy:3128".to_owned()),
            "OPENAI_API_KEY" => Some("sk-123456".to_owned()),
            _ => None,
        };
        Launch::new(name, &serde_norway::from_str(yaml).expect("YAML"), &host(variable))
    }

    fn variable<'a>(launch: &'a Launch, name: &str) -> Option<&'a str> {
        let variables = &launch.spec.environment;
        variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_package_runner_gets_the_network_and_a_directory_of_its_own() {
        let runner = launch("Memory Server", "{command: npx, args: [-y, server], env: {A: b}}");
        assert!(runner.spec.network);
        let own_dir = runner.spec.own_dir.as_ref().expect("a directory").display().to_string();
        assert!(own_dir.starts_with("/data/mcp/Memory_Server"), "{own_dir}");
        assert_eq!(variable(&runner, "HOME"), Some(own_dir.as_str()));
        assert_eq!(variable(&runner, "HTTPS_PROXY"), Some("http://proxy:3128"));
        assert_eq!((variable(&runner, "A"), variable(&runner, "OPENAI_API_KEY")), (Some("b"), None));
        let access = runner.describe_access().expect("access");
        assert!(access.starts_with("the network; its own directory /data/mcp/"), "{access}");
        assert!(!launch("x", "{command: npx, network: false}").spec.network, "the operator decides");
    }

    #[test]
    fn p9_the_ports_of_this_process_are_closed_to_programs_with_the_network() {
        let launch = |yaml: &str, can_close_ports| {
            let host = McpHost { own_ports: vec![8787], can_close_ports, ..host(|_| None) };
            Launch::new("x", &serde_norway::from_str(yaml).expect("YAML"), &host)
        };
        for yaml in ["{command: npx, args: [server]}", "{command: node, network: true}"] {
            let closed = launch(yaml, true);
            assert_eq!((closed.spec.network, closed.spec.closed_ports), (true, vec![8787]), "{yaml}");
        }
        let plain = launch("{command: node}", true);
        assert_eq!((plain.spec.network, plain.spec.closed_ports), (false, vec![]));
        let old = launch("{command: node, network: true}", false);
        assert!(!old.spec.network && old.refused[0].contains("auth_mode: multi"), "{:?}", old.refused);
        let runner = launch("{command: npx, args: [server]}", false);
        assert!(runner.spec.network && runner.spec.closed_ports.is_empty());
        assert!(runner.describe_access().is_some_and(|access| access.contains("this server included")));
    }

    #[test]
    fn another_program_gets_neither() {
        let plain = launch("x", "{command: node, args: [server.js]}");
        assert!(!plain.spec.network && plain.spec.own_dir.is_none() && !plain.spec.without_sandbox);
        assert_eq!((variable(&plain, "HTTPS_PROXY"), plain.describe_access()), (None, None));
    }

    #[test]
    fn p9_a_program_outside_of_the_sandbox_gets_no_key_of_this_process() {
        let outside = launch("x", "{command: docker, args: [run], sandbox: off}");
        assert!(outside.spec.without_sandbox);
        assert_eq!(variable(&outside, "HOME"), Some("/home/me"));
        assert_eq!(variable(&outside, "OPENAI_API_KEY"), None);
        assert!(outside.describe_access().expect("access").contains("without the sandbox"));
    }

    #[test]
    fn the_home_directory_of_an_argument_is_that_of_this_user() {
        let words = launch("x", "{command: ~/bin/server, args: [~/docs, ~, a~/b]}").spec;
        assert_eq!(words.arguments, ["/home/me/docs", "/home/me/", "a~/b"]);
        assert_eq!(words.program, PathBuf::from("/home/me/bin/server"));
    }

    #[test]
    fn an_installation_in_a_home_directory_is_opened_without_the_rest_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path");
        for tree in
            ["node/bin", "node/lib/node_modules/npm/bin", ".local/bin", ".local/lib", "venv/bin", "venv/lib"]
        {
            std::fs::create_dir_all(home.join(tree)).expect("makes");
        }
        for file in [
            "node/lib/node_modules/npm/bin/npx-cli.js",
            ".local/bin/uvx",
            "venv/bin/python",
            "venv/pyvenv.cfg",
        ] {
            std::fs::write(home.join(file), "").expect("writes");
        }
        let link = home.join("node/bin/npx");
        std::os::unix::fs::symlink("../lib/node_modules/npm/bin/npx-cli.js", &link).expect("links");
        let trees = |program: &str| -> Vec<String> {
            let below = |tree: PathBuf| tree.strip_prefix(&home).expect("below").display().to_string();
            installation(&home.join(program), Some(&home)).into_iter().map(below).collect()
        };
        assert_eq!(trees("node/bin/npx"), ["node/bin", "node/lib", "node/lib/node_modules/npm/bin"]);
        assert_eq!(trees(".local/bin/uvx"), [".local/bin"]);
        assert_eq!(trees("venv/bin/python")[..2], ["venv", "venv/lib"]);
        let search_path = format!("relative:{}", home.join("node/bin").display());
        assert_eq!(find_in(&search_path, Path::new("npx")), Some(link));
        assert_eq!(find_in(&search_path, Path::new("no-such")), None);
    }
}
