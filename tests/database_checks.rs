//! What `nanoclaw check` and `nanoclaw verify` say of a database: about files that nodes share, logs that a
//! migration has brought along, and layouts of newer versions. Skipped, with a message, where `PostgreSQL` is
//! not installed.

use crate::store_contract::fixture::Fixture;
use crate::support::database::{self, Schema};
use crate::support::store::{ANN, done, id, job};
use crate::support::{Ran, Server, command};
use nanoclaw::domain::log_chain::LogSigningKey;
use nanoclaw::domain::secret::Secret;
use nanoclaw::store::{StoreLocation, migrate};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A database and the configuration of its nodes.
struct Place {
    schema: Schema,
    home: TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        let (schema, home) = (database::schema()?, tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(home.path().join("data")).expect("made");
        std::fs::create_dir(home.path().join("shared")).expect("made");
        Some(Self { schema, home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// With the name of a directory that the nodes share.
    fn config(&self, shared: &str) -> String {
        let shared = self.path(shared);
        format!("store: {{url: \"{}\", shared_dir: \"{}\"}}\n", self.schema.url(), shared.display())
    }

    fn run(&self, config: &str, arguments: &[&str]) -> Ran {
        let file = self.path("config.yml");
        std::fs::write(&file, config).expect("written");
        let mut command = command(arguments);
        command.arg("--config").arg(file).env("NANOCLAW_DATA_DIR", self.path("data"));
        command.output().expect("runs").into()
    }
}

fn key(seed: u8) -> LogSigningKey {
    LogSigningKey::from_seed([seed; 32]).expect("a key")
}

/// A closed file with a checkpoint that this key has signed, in a database now.
fn migrated(schema: &Schema, signed_by: LogSigningKey) {
    let fixture = Fixture::file();
    fixture.store.set_log_key(signed_by);
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    fixture.store.finish(lease.fence(), vec![], done(id(1), "answer")).wait().expect("finished");
    fixture.clock.advance(2 * 60_000);
    fixture.store.make_checkpoint().wait().expect("made");
    fixture.store.close();
    let (from, to) = (StoreLocation::File(fixture.path()), Secret::from(schema.url()));
    let moved = migrate(&from, &StoreLocation::Database(to), &mut |_, _| ()).expect("moved");
    assert!(moved.is_equal());
}

fn content_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn a_check_of_a_database_reads_the_contents_in_the_directory_that_nodes_share() {
    let Some(place) = Place::new() else { return };
    let config = place.config("shared");
    let mut server = Server::start_with(&config);
    let body = "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--x\r\n\
                content-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\none\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let uploaded = server.request(("POST", "/v1/files"), &headers, body);
    assert_eq!(uploaded.status, 200, "{}", uploaded.body);
    server.terminate();
    let whole = place.run(&config, &["check"]);
    assert_eq!((whole.code, whole.out.as_str()), (0, ""), "{}", whole.err);

    let elsewhere = place.run(&place.config("unmounted"), &["check"]);
    assert!(elsewhere.code == 1 && elsewhere.out.contains("they were not checked"), "{}", elsewhere.out);
    assert!(!elsewhere.out.contains("it is missing") && elsewhere.err.contains("hint: mount"));
    let unset = place.run(&format!("store: {{url: \"{}\"}}\n", place.schema.url()), &["check"]);
    assert!(unset.code == 1 && unset.out.contains("store.shared_dir is not set"), "{}", unset.out);

    let contents = content_files(&place.path("shared/files"));
    std::fs::remove_file(contents.first().expect("a content")).expect("removed");
    let missing = place.run(&config, &["check"]);
    assert!(missing.code == 1 && missing.out.contains("it is missing"), "{}", missing.out);
    assert!(missing.err.contains(&place.path("shared/files").display().to_string()), "{}", missing.err);
}

#[test]
fn verify_after_a_migration_accepts_the_key_that_has_signed_before_it() {
    let Some(place) = Place::new() else { return };
    let (before, now) = (key(1), key(2));
    migrated(&place.schema, key(1));
    let config = place.config("shared");
    let verify = |more: &[&str]| place.run(&config, &[&["verify", "--all"], more].concat());
    let public = before.public_key().to_string();
    let unsigned = verify(&[]);
    assert!(unsigned.code == 1 && unsigned.out.contains("no signature was checked"), "{}", unsigned.out);
    assert_eq!(verify(&["--key", &public]).code, 0);
    std::fs::write(place.path("data/log_key"), before.to_text()).expect("written");
    let signed = verify(&[]);
    assert_eq!((signed.code, signed.out.as_str()), (0, ""), "no server has started yet: {}", signed.err);
    // A node with another data directory was the first to start.
    place.schema.sql(&format!("INSERT INTO settings VALUES ('log_key', '{}')", now.to_text()));
    let signed = verify(&[]);
    assert_eq!((signed.code, signed.out.as_str()), (0, ""), "{}", signed.err);
    std::fs::remove_file(place.path("data/log_key")).expect("removed");
    assert_eq!(verify(&[]).code, 1, "the key of the nodes has not signed it");
    assert_eq!(verify(&["--key", &public]).code, 0);
}

#[test]
fn check_and_verify_read_a_newer_layout_that_names_this_build_and_copies_are_refused() {
    let Some(place) = Place::new() else { return };
    migrated(&place.schema, key(1));
    std::fs::write(place.path("data/log_key"), key(1).to_text()).expect("written");
    let newest: i32 = place.schema.sql("SELECT max(step) FROM migrations").parse().expect("a number");
    let add_step = |step: i32, oldest_usable: i32| {
        let values = format!("({step}, '9.9.9', {oldest_usable})");
        place.schema.sql(&format!("INSERT INTO migrations (step, version, oldest_usable) VALUES {values}"));
    };
    add_step(newest + 1, newest);
    let config = place.config("shared");
    for arguments in [&["verify", "--all"][..], &["verify", &id(1).to_string()], &["check"]] {
        let ran = place.run(&config, arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    }
    // It would leave out what this build does not know.
    let copy = place.path("copy").display().to_string();
    for arguments in [&["backup", &copy][..], &["migrate", "--from", "store.url", "--to", &copy]] {
        let refused = place.run(&config, arguments);
        assert!(refused.code == 1 && refused.err.contains("have layout"), "{arguments:?}: {}", refused.err);
    }
    add_step(newest + 2, newest + 2);
    for arguments in [&["verify", "--all"][..], &["check"]] {
        let refused = place.run(&config, arguments);
        assert!(refused.code == 1 && refused.err.contains("have layout"), "{arguments:?}: {}", refused.err);
    }
}
