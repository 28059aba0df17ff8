//! The paths that a server's command line and environment name. The operator who names them wants the server
//! to use them, so the sandbox opens them, except for those that hold data of others.

use super::options::McpServerOptions;
use std::path::{Component, Path, PathBuf};

/// Files that are programs: their project is readable, and nothing is writable.
const PROGRAM_ENDINGS: [&str; 12] =
    ["js", "mjs", "cjs", "ts", "mts", "cts", "py", "pyz", "jar", "rb", "php", "sh"];
/// Files with these words in their names are opened alone: nothing is written beside a key.
const KEY_WORDS: [&str; 6] = ["key", "secret", "credential", "token", "cert", ".pem"];
/// Files of databases, which make further files beside them.
const DATABASE_ENDINGS: [&str; 5] = ["db", "sqlite", "sqlite3", "db3", "duckdb"];
/// A directory with one of these is the root of a program's project.
const PROJECT_FILES: [&str; 7] =
    ["package.json", "node_modules", "pyproject.toml", "requirements.txt", "setup.py", "deno.json", ".git"];
/// How many directories above a program are searched for the root.
const PROJECT_DEPTH: usize = 5;
/// Trees that the sandbox opens for every program.
const SYSTEM_TREES: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/dev"];
/// Trees with settings and secrets of the machine.
const CLOSED_TREES: [&str; 5] = ["/etc", "/proc", "/sys", "/boot", "/run"];
/// Variables whose paths are not for the server.
const OTHER_VARIABLES: [&str; 9] =
    ["PATH", "HOME", "PWD", "OLDPWD", "SHELL", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH"];
/// Options of `uv` that name a project; it makes a virtual environment there and runs it.
const PROJECT_OPTIONS: [&str; 2] = ["--directory", "--project"];

/// Directories that no server may get.
pub(super) struct ProtectedPaths<'a> {
    /// The store and its keys.
    pub(super) data_dir: &'a Path,
    /// The files of all users that nodes share.
    pub(super) shared_dir: Option<&'a Path>,
    /// The home directory of this process's user; it may be named by an argument only.
    pub(super) home: Option<&'a Path>,
}

/// The opened paths, and those that are not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PathGrants {
    /// To read and to run programs from.
    pub(super) readable: Vec<PathBuf>,
    /// To read and to write.
    pub(super) writable: Vec<PathBuf>,
    /// To read, to write and to run programs from.
    pub(super) program_dirs: Vec<PathBuf>,
    /// For the operator: what is not opened, why, and what to do.
    pub(super) refused: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathUse {
    Data,
    Project,
    Library,
}

impl PathGrants {
    /// The paths that the options name; none if they say themselves which paths the server may use.
    pub(super) fn of(options: &McpServerOptions, arguments: &[String], paths: &ProtectedPaths<'_>) -> Self {
        let mut grants = Self::default();
        if options.workdir.is_some() || options.writable || !options.readable.is_empty() {
            return grants;
        }
        if let Some(cwd) = &options.cwd {
            grants.open(cwd, PathUse::Project, "cwd", paths);
        }
        let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
        for (before, argument) in before.zip(arguments) {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) if option.starts_with('-') => (option, value),
                _ => (before, argument.as_str()),
            };
            let is_project = PROJECT_OPTIONS.contains(&option);
            let path_use = if is_project { PathUse::Project } else { PathUse::Data };
            grants.open(Path::new(value), path_use, &format!("argument '{value}'"), paths);
        }
        for (name, value) in &options.env {
            let path_use = match name.as_str() {
                name if OTHER_VARIABLES.contains(&name) => continue,
                "NODE_PATH" | "PYTHONPATH" => PathUse::Library,
                name if name.contains("CERT") || name.contains("CA_BUNDLE") => PathUse::Library,
                _ => PathUse::Data,
            };
            // The value may be a secret, so only its name is shown.
            let path = Path::new(value.reveal());
            if paths.home.is_none_or(|home| path != home) {
                grants.open(path, path_use, &format!("env {name}"), paths);
            }
        }
        grants
    }

    fn open(&mut self, path: &Path, path_use: PathUse, label: &str, paths: &ProtectedPaths<'_>) {
        if !path.is_absolute() || SYSTEM_TREES.iter().any(|tree| path.starts_with(tree)) {
            return;
        }
        let Some((list, path)) = self.choose(path, path_use, paths) else {
            return;
        };
        match refusal(&path, paths) {
            Some(reason) => self.refused.push(format!("{label}: {reason}")),
            None if list.contains(&path) => {}
            None => list.push(path),
        }
    }

    /// The path to open for a named one, and its list.
    fn choose(
        &mut self,
        path: &Path,
        path_use: PathUse,
        paths: &ProtectedPaths<'_>,
    ) -> Option<(&mut Vec<PathBuf>, PathBuf)> {
        let Ok(real) = path.canonicalize() else {
            // The server may make it.
            let parent = path.parent()?.canonicalize().ok().filter(|parent| parent.is_dir())?;
            // More likely the path of an address, as in `--path /mcp`.
            parent.parent()?;
            return Some((&mut self.writable, parent)).filter(|_| path_use == PathUse::Data);
        };
        let ending = real.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let has_ending = |endings: &[&str]| ending.as_deref().is_some_and(|ending| endings.contains(&ending));
        Some(match path_use {
            PathUse::Library => (&mut self.readable, real),
            PathUse::Project if real.is_dir() => (&mut self.program_dirs, real),
            _ if real.is_dir() => (&mut self.writable, real),
            _ if has_ending(&PROGRAM_ENDINGS) => (&mut self.readable, project_of(&real, paths.home)),
            _ => (&mut self.writable, data_path(&real, has_ending(&DATABASE_ENDINGS), paths)),
        })
    }
}

/// Why a path is not opened.
fn refusal(path: &Path, paths: &ProtectedPaths<'_>) -> Option<String> {
    let shown = path.display();
    let mut own = [Some(paths.data_dir), paths.shared_dir].into_iter().flatten();
    let is_own = own.any(|dir| {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        path.starts_with(&dir) || dir.starts_with(path)
    });
    if path.parent().is_none() {
        return Some("the root directory is not opened; name a directory below it".to_owned());
    }
    if std::env::temp_dir() == path || path == Path::new("/tmp") {
        return Some(format!(
            "'{shown}' holds private directories of other programs and is not opened; name a directory below it"
        ));
    }
    if is_own {
        return Some(format!(
            "'{shown}' holds the data of this server and is not opened; name directories below or beside it"
        ));
    }
    if CLOSED_TREES.iter().any(|tree| path.starts_with(tree)) {
        return Some(format!("'{shown}' belongs to the system and is not opened; list it in readable"));
    }
    None
}

/// The directory of a file with data, because many programs write a new file beside it and rename that. The
/// file alone if it holds a key, or if the directory holds much more.
fn data_path(file: &Path, is_database: bool, paths: &ProtectedPaths<'_>) -> PathBuf {
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_key = KEY_WORDS.iter().any(|word| name.contains(word));
    let is_open = |dir: &&Path| {
        let is_wide = if is_database { is_above_home(dir, paths.home) } else { is_wide(dir, paths.home) };
        !is_key && !is_wide && refusal(dir, paths).is_none()
    };
    file.parent().filter(is_open).unwrap_or(file).to_owned()
}

fn is_above_home(dir: &Path, home: Option<&Path>) -> bool {
    home.is_some_and(|home| home.starts_with(dir))
}

/// Whether a directory is the home directory, or one at the top.
fn is_wide(dir: &Path, home: Option<&Path>) -> bool {
    let depth = dir.components().filter(|part| matches!(part, Component::Normal(_))).count();
    depth < 2 || is_above_home(dir, home)
}

/// The root of the project of a program, or the program's directory. Never the home directory or one at the
/// top, where more lies than a project: then it is the file alone.
fn project_of(program: &Path, home: Option<&Path>) -> PathBuf {
    let above = || program.ancestors().skip(1).take(PROJECT_DEPTH).take_while(|dir| !is_wide(dir, home));
    let has_project_file = |dir: &&Path| PROJECT_FILES.iter().any(|name| dir.join(name).exists());
    let root = above().find(has_project_file).or_else(|| above().next());
    root.unwrap_or(program).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        _dir: tempfile::TempDir,
        root: PathBuf,
    }

    impl Machine {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let root = dir.path().canonicalize().expect("a path");
            for dir in ["home/me/docs", "home/me/app/dist", "home/me/.local/nanoclaw", "srv/weather"] {
                std::fs::create_dir_all(root.join(dir)).expect("makes");
            }
            for file in
                ["home/me/app/package.json", "home/me/app/dist/index.js", "home/me/key.json", "srv/a.db"]
            {
                std::fs::write(root.join(file), "").expect("writes");
            }
            Self { _dir: dir, root }
        }

        fn grants(&self, yaml: &str) -> PathGrants {
            let yaml = yaml.replace("ROOT", &self.root.display().to_string());
            let options: McpServerOptions = serde_norway::from_str(&yaml).expect("YAML");
            let data_dir = self.root.join("home/me/.local/nanoclaw");
            let home = self.root.join("home/me");
            let paths = ProtectedPaths { data_dir: &data_dir, shared_dir: None, home: Some(&home) };
            PathGrants::of(&options, &options.args, &paths)
        }

        fn paths(&self, names: &[&str]) -> Vec<PathBuf> {
            names.iter().map(|name| self.root.join(name)).collect()
        }
    }

    #[test]
    fn named_directories_and_files_are_opened_by_what_they_are() {
        let machine = Machine::new();
        let grants = machine.grants(
            "{command: node, args: [ROOT/home/me/app/dist/index.js, ROOT/home/me/docs, relative, --x, --key=ROOT/home/me/key.json, /usr/lib], \
             env: {DB: ROOT/srv/a.db, TOKEN: sk-1, HOME: ROOT/home/me}}",
        );
        assert_eq!(grants.readable, machine.paths(&["home/me/app"]));
        assert_eq!(grants.writable, machine.paths(&["home/me/docs", "home/me/key.json", "srv"]));
        assert_eq!((grants.program_dirs, grants.refused), (Vec::new(), Vec::<String>::new()));
    }

    #[test]
    fn a_file_with_data_opens_its_directory_unless_that_holds_much_more() {
        let machine = Machine::new();
        for (file, opened) in [
            ("home/me/docs/memory.jsonl", "home/me/docs"),
            ("home/me/docs/api-token.txt", "home/me/docs/api-token.txt"),
            ("home/me/notes.json", "home/me/notes.json"),
        ] {
            std::fs::write(machine.root.join(file), "").expect("writes");
            let grants = machine.grants(&format!("{{command: npx, env: {{FILE: ROOT/{file}}}}}"));
            assert_eq!(grants.writable, machine.paths(&[opened]), "{file}");
            assert_eq!(grants.refused, Vec::<String>::new(), "{file}");
        }
    }

    #[test]
    fn a_file_that_does_not_exist_yet_opens_its_directory() {
        let machine = Machine::new();
        let grants =
            machine.grants("{command: npx, env: {MEMORY_FILE_PATH: ROOT/home/me/docs/memory.jsonl}}");
        assert_eq!(grants.writable, machine.paths(&["home/me/docs"]));
    }

    #[test]
    fn the_path_of_an_address_is_no_file() {
        let grants = Machine::new().grants("{command: npx, args: [--path, /mcp, '--prefix=/api/v1']}");
        assert_eq!(grants, PathGrants::default());
    }

    #[test]
    fn a_project_of_uv_may_run_its_own_programs() {
        let machine = Machine::new();
        for yaml in [
            "{command: uv, args: [--directory, ROOT/srv/weather, run, weather.py]}",
            "{command: uv, args: [run, weather.py], cwd: ROOT/srv/weather}",
        ] {
            assert_eq!(machine.grants(yaml).program_dirs, machine.paths(&["srv/weather"]), "{yaml}");
        }
    }

    #[test]
    fn paths_with_data_of_others_stay_closed() {
        let machine = Machine::new();
        for (yaml, reason) in [
            ("{command: npx, args: [ROOT/home/me]}", "holds the data of this server"),
            ("{command: npx, args: [ROOT/home/me/.local/nanoclaw]}", "holds the data of this server"),
            ("{command: npx, args: [/]}", "the root directory"),
            ("{command: npx, args: [/tmp]}", "private directories of other programs"),
            ("{command: npx, args: [/etc]}", "belongs to the system"),
            ("{command: npx, env: {FILE: ROOT/home/me/new.json}}", "env FILE: "),
        ] {
            let grants = machine.grants(yaml);
            assert!(grants.refused.iter().any(|refused| refused.contains(reason)), "{yaml}: {grants:?}");
            assert!(grants.writable.is_empty() && grants.readable.is_empty(), "{yaml}: {grants:?}");
        }
    }

    #[test]
    fn an_operator_who_lists_paths_opens_only_those() {
        let machine = Machine::new();
        for more in ["workdir: /srv", "readable: [/srv]"] {
            let grants = machine.grants(&format!("{{command: node, args: [ROOT/home/me/docs], {more}}}"));
            assert_eq!(grants, PathGrants::default(), "{more}");
        }
    }
}
