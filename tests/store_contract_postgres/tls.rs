//! TLS to a database whose certificate an authority of its own has signed: what `sslmode` checks, as for
//! clients of libpq.

use crate::support::database::DatabaseServer;
use nanoclaw::app::system::SystemClock;
use nanoclaw::domain::secret::Secret;
use nanoclaw::store::postgres::{ConnectionProtection, PostgresOptions, inspect};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const VERIFIED: Result<ConnectionProtection, String> = Ok(ConnectionProtection::Verified);
const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30";

/// Runs openssl in the directory; `None`, with a message, where it is not installed.
fn openssl(dir: &Path, arguments: &str) -> Option<()> {
    let run = Command::new("openssl").current_dir(dir).args(arguments.split_whitespace()).output();
    let Ok(run) = run else {
        writeln!(std::io::stderr(), "SKIPPED: openssl is not installed (apt-get install openssl)")
            .expect("standard error");
        return None;
    };
    assert!(run.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&run.stderr));
    Some(())
}

/// The certificates of two authorities, of a server named `localhost` that the first has signed, and of one
/// that has signed itself.
fn certificates() -> Option<TempDir> {
    let dir = TempDir::new().unwrap();
    for name in ["ca", "other"] {
        openssl(
            dir.path(),
            &format!("req -x509 {NEW_KEY} -keyout {name}.key -out {name}.pem -subj /CN={name}"),
        )?;
    }
    let request = "-keyout server.key -out server.csr -subj /CN=localhost";
    openssl(dir.path(), &format!("req -new {} {request}", NEW_KEY.replace(" -days 30", "")))?;
    std::fs::write(dir.path().join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.pem";
    openssl(dir.path(), &format!("x509 -req -in server.csr {sign}"))?;
    let own = "-keyout self.key -out self.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost";
    openssl(dir.path(), &format!("req -x509 {NEW_KEY} {own}"))?;
    Some(dir)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A database with TLS.
struct TlsDatabase {
    certificates: TempDir,
    port: u16,
    _server: DatabaseServer,
}

impl TlsDatabase {
    fn start(name: &str) -> Option<Self> {
        let certificates = certificates()?;
        let read =
            |end: &str| std::fs::read_to_string(certificates.path().join(format!("{name}.{end}"))).unwrap();
        let port = free_port();
        let server = DatabaseServer::start_with_tls(port, &read("pem"), &read("key"))?;
        Some(Self { certificates, port, _server: server })
    }

    /// Connects; returns what protects the connection, or why there is none. `ROOT/` stands for the directory
    /// of the certificates.
    fn connect(&self, host: &str, params: &str) -> Result<ConnectionProtection, String> {
        let root = self.certificates.path().to_str().unwrap().replace('/', "%2F");
        let params = params.replace("ROOT/", &format!("{root}%2F"));
        let url = format!("postgres://postgres@{host}:{}/postgres?{params}", self.port);
        let options = PostgresOptions {
            url: Secret::from(url),
            node_name: "test".to_owned(),
            lease: Duration::from_secs(15),
            is_pooled: false,
            connections: 2,
            audit_entries: 1,
            uses_database_time: true,
        };
        match inspect(&options, &SystemClock::new()) {
            Ok(report) => Ok(report.protection),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refused(&self, host: &str, params: &str, reason: &str) {
        let refused = self.connect(host, params).expect_err(params);
        assert!(refused.contains(reason), "{params}: {refused}");
    }
}

#[test]
fn a_certificate_of_an_own_authority_is_checked_as_far_as_sslmode_says() {
    let Some(database) = TlsDatabase::start("server") else { return };
    assert_eq!(database.connect("localhost", "sslmode=disable"), Ok(ConnectionProtection::SameMachine));
    for mode in ["", "sslmode=prefer", "sslmode=require"] {
        let protection = database.connect("localhost", mode);
        assert_eq!(protection, Ok(ConnectionProtection::Encrypted), "{mode}: any certificate will do");
    }
    database.refused("localhost", "sslmode=verify-full", "UnknownIssuer");
    let full = "sslmode=verify-full&sslrootcert=ROOT/ca.pem";
    assert_eq!(database.connect("localhost", full), VERIFIED);
    database.refused("127.0.0.1", full, "not valid for name");
    assert_eq!(database.connect("127.0.0.1", "sslmode=verify-ca&sslrootcert=ROOT/ca.pem"), VERIFIED);
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        let other = format!("sslmode={mode}&sslrootcert=ROOT/other.pem");
        database.refused("localhost", &other, "UnknownIssuer");
    }
    database.refused("localhost", "sslmode=verify-full&sslrootcert=ROOT/none.pem", "No such file");
    database.refused("localhost", "sslmode=verify-full&sslrootcert=ROOT/ca.key", "no certificate");
}

#[test]
fn a_certificate_that_signed_itself_is_its_own_authority() {
    let Some(database) = TlsDatabase::start("self") else { return };
    let full = "sslmode=verify-full&sslrootcert=ROOT/self.pem";
    assert_eq!(database.connect("localhost", full), VERIFIED);
    database.refused("127.0.0.1", full, "not valid for name");
    assert_eq!(database.connect("127.0.0.1", "sslmode=verify-ca&sslrootcert=ROOT/self.pem"), VERIFIED);
    database.refused("localhost", "sslmode=verify-full&sslrootcert=ROOT/ca.pem", "certificate");
}
