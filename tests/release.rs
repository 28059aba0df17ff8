//! `scripts/release` and `scripts/get.sh`: the archive, its checksum, and installations from a directory and
//! from a file server. The Dockerfile and the units are checked as text.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

const BINARY: &str = env!("CARGO_BIN_EXE_nanoclaw");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A release of a small script that runs the binary under test: packing it takes no time.
static RELEASE: LazyLock<tempfile::TempDir> = LazyLock::new(|| make_release(""));

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(repository().join(path)).expect("a file of the repository")
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    text(output)
}

/// Runs `scripts/release` after `preparation` in the shell.
fn make_release(preparation: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = dir.path().join("nanoclaw");
    std::fs::write(&binary, format!("#!/bin/sh\nexec '{BINARY}' \"$@\"\n")).expect("written");
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let command = format!("{preparation}\nexec \"$0\" --archive nanoclaw --out release");
    let mut release = Command::new("bash");
    release.arg("-c").arg(command).arg(repository().join("scripts/release")).current_dir(dir.path());
    // The registry's files are here already: this test needs no network.
    success(&run(release.env("CARGO_NET_OFFLINE", "true").env("SOURCE_DATE_EPOCH", "1700000000")));
    dir
}

fn release() -> PathBuf {
    RELEASE.path().join("release")
}

fn archive() -> String {
    format!("nanoclaw-{VERSION}-{}-linux.tar.gz", std::env::consts::ARCH)
}

/// A copy of the release that a test may damage.
fn copy_of_release(dir: &Path) -> PathBuf {
    let copy = dir.join("copy");
    std::fs::create_dir(&copy).expect("a directory");
    for entry in std::fs::read_dir(release()).expect("readable").flatten() {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("copied");
    }
    copy
}

fn get(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.arg(repository().join("scripts/get.sh")).args(arguments).env_remove("GET_NANOCLAW_FROM");
    command
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Serves the files of a directory. Of archives it sends the first `limit` bytes only, under the full length.
fn serve(dir: PathBuf, limit: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/a/release", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            let line = head.next().unwrap_or_default();
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let path = line.split(' ').nth(1).and_then(|path| path.strip_prefix("/a/release/"));
            let (status, body) = match path.map(|name| std::fs::read(dir.join(name))) {
                Some(Ok(body)) => ("200 OK", body),
                _ => ("404 Not Found", b"no such file".to_vec()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let sent = if line.contains(".tar.gz") { body.len().min(limit) } else { body.len() };
            // A client that has seen enough may hang up.
            drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..sent])));
        }
    });
    url
}

/// The entries of the archive: path below the top directory → line of `tar -tv`.
fn entries() -> BTreeMap<String, String> {
    let mut tar = Command::new("tar");
    let listed = run(tar.args(["--numeric-owner", "-tvzf"]).arg(release().join(archive())).env("TZ", "UTC"));
    let top = archive().replace(".tar.gz", "/");
    let lines = success(&listed);
    let named =
        lines.lines().map(|line| (line.split(&top).nth(1).unwrap_or("?").to_owned(), line.to_owned()));
    named.collect()
}

#[test]
fn an_archive_holds_the_binary_units_manuals_completions_and_licences() {
    let entries = entries();
    for path in [
        "LICENSE",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "bin/nanoclaw",
        "share/bash-completion/completions/nanoclaw",
        "share/doc/nanoclaw/SECURITY.md",
        "share/doc/nanoclaw/THIRD-PARTY-LICENSES.txt",
        "share/fish/vendor_completions.d/nanoclaw.fish",
        "share/man/man1/nanoclaw.1",
        "share/nanoclaw/scripts/install",
        "share/nanoclaw/systemd/nanoclaw.service",
        "share/nanoclaw/systemd/nanoclaw.socket",
        "share/zsh/site-functions/_nanoclaw",
    ] {
        let line = entries.get(path).unwrap_or_else(|| panic!("no {path} in {entries:#?}"));
        let is_program = path.contains("bin/") || path.contains("scripts/");
        let mode = if is_program { "-rwxr-xr-x 0/0" } else { "-rw-r--r-- 0/0" };
        assert!(line.starts_with(mode) && line.contains(" 2023-11-14 22:13 "), "{line}");
    }
}

#[test]
fn a_release_of_the_same_commit_is_the_same_on_another_day_with_another_umask() {
    let other = make_release("umask 077; export TZ=Asia/Tokyo LC_ALL=C");
    let (first, second) = (release(), other.path().join("release"));
    let checked =
        run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&first));
    assert_eq!(success(&checked).lines().count(), 3, "archive, bill of materials, get.sh");
    assert_eq!(
        std::fs::read_to_string(first.join("SHA256SUMS")).expect("there"),
        std::fs::read_to_string(second.join("SHA256SUMS")).expect("there"),
    );
}

#[test]
fn the_bill_of_materials_lists_what_is_linked_with_checksums() {
    let name = archive().replace(".tar.gz", ".cdx.json");
    let bytes = std::fs::read(release().join(name)).expect("there");
    let bill: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["version"], VERSION);
    let components = bill["components"].as_array().expect("a list");
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    for name in ["redb", "hyper", "landlock", "rquickjs-sys"] {
        let found = find(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(found["hashes"][0]["content"].as_str().map(str::len), Some(64), "{found}");
        assert!(found["licenses"][0]["expression"].is_string(), "{found}");
    }
    assert!(find("glibc").is_some(), "the C library is linked, too");
    for name in ["proptest", "tempfile"] {
        assert!(find(name).is_none(), "{name} is for tests only");
    }
    assert!(!String::from_utf8_lossy(&bytes).contains(as_text(&repository())), "no path of this machine");
}

#[test]
fn get_installs_from_a_directory_and_says_what_comes_next() {
    let root = tempfile::tempdir().expect("a directory");
    let prefix = root.path().join("a prefix");
    let said = success(&run(&mut get(&["--prefix", as_text(&prefix), as_text(&release())])));
    let binary = prefix.join("bin/nanoclaw");
    assert!(said.contains(&format!("nanoclaw {VERSION} is installed: {}", binary.display())), "{said}");
    assert!(said.contains("systemd service") && said.contains("share/nanoclaw/scripts/install"), "{said}");
    assert_eq!(success(&run(Command::new(&binary).arg("--version"))), format!("nanoclaw {VERSION}\n"));
    assert!(prefix.join("share/man/man1/nanoclaw-serve.1").exists());
    assert!(prefix.join("share/doc/nanoclaw/LICENSE-MIT").exists());

    // The installed script sets up the service with the installed binary.
    let service = root.path().join("service");
    let mut install = Command::new(prefix.join("share/nanoclaw/scripts/install"));
    success(&run(install.arg("--root").arg(&service)));
    assert!(service.join("etc/systemd/system/nanoclaw.service").exists());
    let installed = std::fs::read(service.join("usr/local/bin/nanoclaw")).expect("there");
    assert_eq!(installed, std::fs::read(&binary).expect("there"));

    // An upgrade gives the name to another file: a running server keeps its own.
    let before = std::fs::metadata(&binary).expect("there").ino();
    let running = std::fs::File::open(&binary).expect("there");
    success(&run(&mut get(&["--prefix", as_text(&prefix), as_text(&release())])));
    assert_ne!(std::fs::metadata(&binary).expect("there").ino(), before);
    drop(running);
    success(&run(&mut get(&["--uninstall", "--prefix", as_text(&prefix)])));
    assert!(!binary.exists() && !prefix.join("share/nanoclaw").exists());
}

/// A directory with the programs that `get.sh` needs, and one client.
fn search_path(dir: &Path, client: &str) -> Option<PathBuf> {
    let bin = dir.join(client);
    std::fs::create_dir(&bin).expect("a directory");
    let needed = "sh cat id uname mktemp rm cp mv mkdir chmod dirname grep sed cut tar gzip find sha256sum";
    for program in needed.split(' ').chain([client]) {
        let found =
            ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists())?;
        std::os::unix::fs::symlink(found, bin.join(program)).expect("a link");
    }
    Some(bin)
}

#[test]
fn get_installs_from_a_server_with_curl_and_with_wget() {
    let url = serve(release(), usize::MAX);
    for client in ["curl", "wget"] {
        let root = tempfile::tempdir().expect("a directory");
        let Some(path) = search_path(root.path(), client) else {
            eprintln!("SKIPPED: {client} is not installed, so get.sh was not tried with it");
            continue;
        };
        let prefix = root.path().join("prefix");
        let said = success(&run(get(&["--prefix", as_text(&prefix), &url]).env("PATH", &path)));
        assert!(said.contains("is installed") && !said.contains("http://"), "{client}: {said}");
        assert!(prefix.join("bin/nanoclaw").exists());

        let short = serve(release(), 10_000);
        let prefix = root.path().join("short");
        let refused = run(get(&["--prefix", as_text(&prefix), &short]).env("PATH", &path));
        assert!(
            !refused.status.success() && text(&refused).contains("nothing was installed"),
            "{}",
            text(&refused)
        );
        assert!(!prefix.exists(), "{client}: a truncated download changes nothing");
    }
}

/// A kind of damage, how to make it, and the words of the refusal.
type Damage = (&'static str, fn(&Path), &'static str);

#[test]
fn get_refuses_a_damaged_release_and_keeps_what_is_installed() {
    let damages: [Damage; 6] = [
        ("a changed archive", |dir| append(&dir.join(archive()), b"x"), "the checksum of nanoclaw-"),
        ("a truncated archive", |dir| truncate(&dir.join(archive())), "the checksum of nanoclaw-"),
        ("a changed sum", |dir| change_sum(&dir.join("SHA256SUMS")), "the checksum of nanoclaw-"),
        ("no sums", |dir| remove(&dir.join("SHA256SUMS")), "there is no SHA256SUMS"),
        ("no archive", |dir| remove(&dir.join(archive())), "cannot get nanoclaw-"),
        ("no line", |dir| std::fs::write(dir.join("SHA256SUMS"), "").expect("written"), "lists no archive"),
    ];
    for (what, damage, message) in damages {
        let root = tempfile::tempdir().expect("a directory");
        let copy = copy_of_release(root.path());
        damage(&copy);
        let prefix = root.path().join("prefix");
        std::fs::create_dir_all(prefix.join("bin")).expect("a directory");
        std::fs::write(prefix.join("bin/nanoclaw"), "old").expect("written");
        for from in [as_text(&copy), &serve(copy.clone(), usize::MAX)] {
            let refused = run(&mut get(&["--prefix", as_text(&prefix), from]));
            assert!(
                !refused.status.success() && text(&refused).contains(message),
                "{what}: {}",
                text(&refused)
            );
        }
        assert_eq!(std::fs::read_to_string(prefix.join("bin/nanoclaw")).expect("there"), "old", "{what}");
        assert!(!prefix.join("share").exists(), "{what}");
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("there");
    file.write_all(bytes).expect("written");
}

fn truncate(path: &Path) {
    std::fs::OpenOptions::new().write(true).open(path).expect("there").set_len(5_000).expect("shortened");
}

fn change_sum(path: &Path) {
    let sums = std::fs::read_to_string(path).expect("there");
    let changed =
        sums.lines().map(|line| format!("{}{}\n", "0".repeat(64), line.get(64..).unwrap_or_default()));
    std::fs::write(path, changed.collect::<String>()).expect("written");
}

fn remove(path: &Path) {
    std::fs::remove_file(path).expect("there");
}

#[test]
fn get_explains_a_call_that_cannot_work() {
    let root = tempfile::tempdir().expect("a directory");
    let nothing = run(&mut get(&[]));
    assert!(
        nothing.status.code() == Some(2) && text(&nothing).contains("usage: get.sh"),
        "{}",
        text(&nothing)
    );
    let none = run(&mut get(&["--version", "9.9.9", as_text(&release())]));
    assert!(text(&none).contains("lists no archive of version 9.9.9"), "{}", text(&none));
    let file = root.path().join("file");
    std::fs::write(&file, "").expect("written");
    let blocked = run(&mut get(&["--prefix", as_text(&file), as_text(&release())]));
    assert!(!blocked.status.success() && text(&blocked).contains("cannot write to"), "{}", text(&blocked));

    let copy = copy_of_release(root.path());
    let sums = std::fs::read_to_string(copy.join("SHA256SUMS")).expect("there");
    std::fs::write(copy.join("SHA256SUMS"), format!("{sums}{}", sums.replace(VERSION, "9.9.9")))
        .expect("written");
    let several = run(&mut get(&[as_text(&copy)]));
    assert!(text(&several).contains("holds several versions"), "{}", text(&several));
}

#[test]
fn the_version_stands_in_one_manifest() {
    let workspace = read("Cargo.toml");
    assert_eq!(
        workspace.matches(&format!("version = \"{VERSION}\"")).count(),
        1,
        "[workspace.package] has it"
    );
    for manifest in ["sandbox/Cargo.toml", "scripts/benchmarks/Cargo.toml"] {
        assert!(read(manifest).contains("version.workspace = true"), "{manifest}");
    }
    for script in ["scripts/release", "scripts/get.sh", "scripts/build-deb", "Dockerfile"] {
        assert!(!read(script).contains(VERSION), "{script} repeats the version");
    }
}

#[test]
fn the_units_have_a_name_in_the_journal_and_manual_pages_that_exist() {
    let entries = entries();
    for unit in ["nanoclaw.service", "nanoclaw-backup.service", "nanoclaw.socket", "nanoclaw-backup.timer"] {
        let unit_text = read(Path::new("systemd").join(unit));
        let has = |line: &str| unit_text.lines().any(|found| found == line);
        let is_service = unit.ends_with(".service");
        let name = unit.trim_end_matches(".service");
        assert!(
            !is_service || has(&format!("SyslogIdentifier={name}")),
            "{unit} logs under the name of env or sh"
        );
        let documentation = unit_text.lines().find_map(|line| line.strip_prefix("Documentation="));
        for page in documentation.unwrap_or_else(|| panic!("{unit} has no Documentation=")).split(' ') {
            let page = page.trim_start_matches("man:").replace("(1)", ".1");
            assert!(entries.contains_key(&format!("share/man/man1/{page}")), "{unit} names {page}");
        }
    }
}

/// hadolint checks the rest where it can be installed (`scripts/lint-dockerfile`).
#[test]
fn the_dockerfile_keeps_the_rules_of_an_image() {
    let file = read("Dockerfile");
    let instructions: Vec<String> = {
        let lines = file.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        lines.replace("\\\n", " ").lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let last = |name: &str| {
        let of_name = instructions.iter().rev().find(|line| line.split(' ').next() == Some(name));
        of_name.unwrap_or_else(|| panic!("no {name}")).as_str()
    };
    let base = last("FROM");
    assert!(base.contains(":12") && base.ends_with("-slim"), "a version and no latest: {base}");
    let user = last("USER").trim_start_matches("USER ");
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "a number, not root: {user}");
    let packages = last("RUN");
    assert!(packages.contains("--no-install-recommends python3"), "{packages}");
    assert!(packages.contains("rm -rf /var/lib/apt/lists/*"), "{packages}");
    for name in ["ENTRYPOINT", "CMD"] {
        assert!(last(name).starts_with(&format!("{name} [\"")), "exec form: {}", last(name));
    }
    assert!(last("HEALTHCHECK").contains("/healthz"));
    assert!(!instructions.iter().any(|line| line.starts_with("ADD ") || line.contains("sudo")));
    // The build's context holds what is copied and nothing else.
    let copied: Vec<&str> = instructions.iter().filter_map(|line| line.strip_prefix("COPY ")).collect();
    let sources = copied.iter().flat_map(|line| line.split(' ').filter(|word| !word.starts_with(['/', '-'])));
    for source in sources {
        let is_in_context = source == "dist/nanoclaw" || source.starts_with("LICENSE");
        assert!(is_in_context && read(".dockerignore").contains(&format!("!{}", &source[..7])), "{source}");
    }
    for call in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"] {
        assert!(file.contains(call), "the file says that the outer profile must permit {call}");
    }
}
