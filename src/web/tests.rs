//! The guarded web against servers on loopback, with a resolver that lies.
#![allow(clippy::disallowed_methods, reason = "a server of a test has to take its time")]

use super::*;
use crate::app::system::SystemClock;
use crate::ports::{CancelReason, CancelToken};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;

type Script = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A server that remembers the requests, whole.
struct Site {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(script: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", script).expect("a port")
    }

    fn at(address: &str, script: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, script): (_, Script) = (Arc::clone(&seen), Box::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                drop(serve(stream, &log, &script));
            }
        });
        Ok(Self { address, seen })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, script: &Script) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut whole, mut length) = (String::new(), 0);
    while !whole.ends_with("\r\n\r\n") {
        let before = whole.len();
        if reader.read_line(&mut whole)? == 0 {
            return Ok(());
        }
        if let Some(value) = whole[before..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    whole.push_str(&String::from_utf8_lossy(&body));
    let path = whole.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().expect("no panic").push(whole);
    stream.write_all(&script(&path))
}

fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// Answers each question with the next list; the last one stays.
#[derive(Debug, Default)]
struct Lying {
    answers: Mutex<VecDeque<Vec<&'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl Lying {
    fn saying(answers: &[&[&'static str]]) -> Arc<Self> {
        let answers = answers.iter().map(|list| list.to_vec()).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }
}

impl NameSource for Lying {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().expect("no panic").push(host.to_owned());
        let mut answers = self.answers.lock().expect("no panic");
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let next = next.ok_or_else(|| io::Error::other("no such name"))?;
        Ok(next.iter().map(|text| SocketAddr::new(text.parse().expect("an address"), port)).collect())
    }
}

fn web(names: &Arc<Lying>, options: &WebOptions) -> GuardedWeb {
    GuardedWeb::over(options, &(Arc::clone(names) as Arc<dyn NameSource>)).expect("ranges")
}

fn open(allowed: &[&str]) -> WebOptions {
    let allow_private_addresses = allowed.iter().map(|range| (*range).to_owned()).collect();
    WebOptions { allow_private_addresses, ..WebOptions::default() }
}

fn plain(allowed: &[&str]) -> GuardedWeb {
    web(&Lying::saying(&[]), &open(allowed))
}

fn cancel() -> CancelToken {
    CancelToken::new(Arc::new(SystemClock::new()))
}

fn asking(url: &str, trust: UrlTrust) -> WebRequest {
    WebRequest {
        method: WebMethod::Get,
        url: url.to_owned(),
        headers: Vec::new(),
        trust,
        max_bytes: usize::MAX,
    }
}

fn get(web: &GuardedWeb, url: &str) -> Result<WebResponse, WebError> {
    web.send(&asking(url, UrlTrust::Guest), &cancel())
}

#[test]
fn p9_a_name_that_resolves_to_another_address_later_gains_nothing() {
    let port = Arc::new(Mutex::new(0));
    let own = Arc::clone(&port);
    let site = Site::start(move |path| match path {
        "/start" => redirect(302, &format!("http://rebind.example:{}/secret", own.lock().expect("no panic"))),
        _ => ok("", b"page"),
    });
    *port.lock().expect("no panic") = site.address.port();
    let Ok(inner) = Site::at(&format!("127.0.0.2:{}", site.address.port()), |_| ok("", b"secret")) else {
        return; // somebody else has the port there
    };
    let names = Lying::saying(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let web = web(&names, &open(&["127.0.0.1"]));
    let refused =
        get(&web, &format!("http://rebind.example:{}/start", site.address.port())).expect_err("refused");
    assert!(matches!(&refused, WebError::Forbidden(words) if words.contains("rebind.example")), "{refused}");
    assert!(!refused.to_string().contains("127.0.0.2"), "the addresses of a name stay hidden");
    assert_eq!((site.seen().len(), inner.seen().len()), (1, 0));
    assert_eq!(
        names.asked.lock().expect("no panic").len(),
        2,
        "each connection goes where its one lookup led"
    );
}

#[test]
fn p9_a_host_with_any_private_address_is_refused() {
    let site = Site::start(|_| ok("", b"page"));
    for answers in [["127.0.0.1", "10.0.0.1"], ["::ffff:127.0.0.1", "127.0.0.1"], ["127.0.0.1", "fe80::1"]] {
        let names = Lying::saying(&[&answers]);
        let refused =
            get(&web(&names, &open(&["127.0.0.1"])), &format!("http://x.example:{}/", site.address.port()));
        assert!(matches!(refused, Err(WebError::Forbidden(_))), "{refused:?}");
    }
    let names = Lying::saying(&[&["127.0.0.1"]]);
    let port = site.address.port();
    assert!(matches!(
        get(&web(&names, &open(&[])), &format!("http://x.example:{port}/")),
        Err(WebError::Forbidden(_))
    ));
    assert_eq!(site.seen(), Vec::<String>::new(), "no connection was made");
    let fine =
        get(&web(&names, &open(&["127.0.0.1"])), &format!("http://x.example:{port}/")).expect("a page");
    assert_eq!((fine.status, fine.body.as_slice()), (200, b"page".as_slice()));
    assert!(site.seen().concat().contains(&format!("host: x.example:{port}")), "{:?}", site.seen());
    assert!(matches!(get(&plain(&[]), "http://nowhere.example/"), Err(WebError::Unreachable(_))));
}

#[test]
fn redirects_are_checked_and_limited_in_number() {
    let inner = Site::start(|_| ok("", b"secret"));
    let target = format!("http://127.0.0.2:{}/", inner.address.port());
    let site = Site::start(move |path| match path.trim_start_matches('/') {
        "private" => redirect(302, &target),
        "file" => redirect(302, "file:///etc/passwd"),
        "user" => redirect(302, "http://me:pw@127.0.0.1/"),
        "port" => redirect(302, "http://127.0.0.1:25/"),
        "0" => ok("content-type: text/plain\r\n", b"the end"),
        number => match number.parse::<u32>() {
            Ok(number) => redirect(301, &format!("/{}#part", number - 1)),
            Err(_) => redirect(302, "http://["),
        },
    });
    let web = plain(&["127.0.0.1"]);
    for path in ["/private", "/user", "/port"] {
        assert!(matches!(get(&web, &site.url(path)), Err(WebError::Forbidden(_))), "{path}");
    }
    assert!(matches!(get(&web, &site.url("/file")), Err(WebError::BadUrl(_))));
    assert!(matches!(get(&web, &site.url("/broken")), Err(WebError::Redirects(_))));
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
    let end = get(&web, &site.url("/5#mine")).expect("five are followed");
    assert_eq!((end.url, end.body.as_slice()), (site.url("/0"), b"the end".as_slice()));
    assert_eq!(end.content_type.as_deref(), Some("text/plain"));
    assert!(matches!(get(&web, &site.url("/6")), Err(WebError::Redirects(words)) if words.contains('5')));
    assert!(!site.seen().concat().contains('#'), "fragments stay here");
}

#[test]
fn p9_redirects_to_other_origins_drop_keys_and_bound_requests_refuse_them() {
    let other = Site::start(|_| ok("", b"other"));
    let target = other.url("/there");
    let site = Site::start(move |path| match path {
        "/away" => redirect(307, &target),
        "/see" => redirect(303, "/here"),
        "/again" => redirect(308, "/here"),
        _ => ok("", b"here"),
    });
    let web = plain(&["127.0.0.1"]);
    let post = |path: &str, trust| WebRequest {
        method: WebMethod::Post("text/plain".into(), b"words".to_vec()),
        headers: vec![("authorization".into(), "Bearer key".into()), ("accept".into(), "text/x".into())],
        ..asking(&site.url(path), trust)
    };
    assert_eq!(web.send(&post("/away", UrlTrust::Guest), &cancel()).expect("a page").body, b"other");
    let seen = other.seen().concat();
    assert!(seen.starts_with("POST /there") && seen.ends_with("words"), "{seen}");
    assert!(!seen.contains("Bearer") && seen.contains("text/x"), "{seen}");
    let bound = web.send(&post("/away", UrlTrust::Bound), &cancel());
    assert!(matches!(bound, Err(WebError::Redirects(_))) && other.seen().len() == 1);
    web.send(&post("/see", UrlTrust::Bound), &cancel()).expect("the same origin");
    web.send(&post("/again", UrlTrust::Bound), &cancel()).expect("the same origin");
    let seen = site.seen();
    let here: Vec<&String> = seen.iter().filter(|request| request.contains(" /here ")).collect();
    assert!(
        here[0].starts_with("GET ") && here[1].starts_with("POST ") && here[1].ends_with("words"),
        "{here:?}"
    );
    assert!(here.iter().all(|request| request.contains("Bearer key")), "{here:?}");
}

#[test]
fn operator_requests_reach_any_address_and_follow_no_redirect() {
    let site = Site::start(|_| redirect(302, "http://example.org/"));
    let answer = plain(&[]).send(&asking(&site.url("/"), UrlTrust::Operator), &cancel()).expect("an answer");
    assert_eq!((answer.status, site.seen().len()), (302, 1));
    assert!(matches!(get(&plain(&[]), &site.url("/")), Err(WebError::Forbidden(_))));
    assert_eq!(site.seen().len(), 1);
}

#[test]
fn p8_bodies_are_unpacked_within_their_limit() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).expect("packs");
        encoder.finish().expect("packs")
    };
    let deflated = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(b"deflated").expect("packs");
        encoder.finish().expect("packs")
    };
    let (bomb, small) = (packed(&vec![0; 3 << 20]), packed(b"small"));
    assert!(bomb.len() < 10_000);
    let site = Site::start(move |path| match path {
        "/bomb" => ok("content-encoding: gzip\r\n", &bomb),
        "/x" => ok("content-encoding: X-GZip\r\n", &small),
        "/small" => ok("content-encoding: gzip\r\n", &small),
        "/deflate" => ok("content-encoding: deflate\r\n", &deflated),
        "/br" => ok("content-encoding: br\r\n", b"?"),
        "/broken" => ok("content-encoding: gzip\r\n", &small[..small.len() - 9]),
        "/head" => [format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(200_000)).as_bytes()].concat(),
        _ => ok("", &vec![b'x'; 2 << 20]),
    });
    let web = web(&Lying::saying(&[]), &WebOptions { max_bytes: 1 << 20, ..open(&["127.0.0.1"]) });
    for path in ["/bomb", "/large"] {
        assert_eq!(get(&web, &site.url(path)), Err(WebError::TooLarge { max_bytes: 1 << 20 }), "{path}");
    }
    for (path, body) in [("/small", "small"), ("/x", "small"), ("/deflate", "deflated")] {
        assert_eq!(get(&web, &site.url(path)).expect(path).body, body.as_bytes(), "{path}");
    }
    for path in ["/br", "/broken", "/head"] {
        assert!(matches!(get(&web, &site.url(path)), Err(WebError::Unreachable(_))), "{path}");
    }
    let most = WebRequest { max_bytes: 4, ..asking(&site.url("/small"), UrlTrust::Guest) };
    assert_eq!(web.send(&most, &cancel()), Err(WebError::TooLarge { max_bytes: 4 }));
}

#[test]
fn p8_silence_and_slow_bytes_end_with_the_timeout_and_the_cancel() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
                while stream.write_all(b".").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    let quick = web(&Lying::saying(&[]), &WebOptions { timeout_s: 1, ..open(&["127.0.0.1"]) });
    assert_eq!(get(&quick, &url), Err(WebError::Timeout { timeout_s: 1 }));
    let (slow, cancel) = (plain(&["127.0.0.1"]), cancel());
    let stop = cancel.clone();
    let pulling = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stop.cancel(CancelReason::Cancelled);
    });
    assert_eq!(slow.send(&asking(&url, UrlTrust::Guest), &cancel), Err(WebError::Stopped));
    pulling.join().expect("no panic");
}

#[test]
fn web_connections_are_not_reused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (taken, count) = (Arc::new(Mutex::new(0)), 3);
    let log = Arc::clone(&taken);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            *log.lock().expect("no panic") += 1;
            std::thread::spawn(move || {
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
                }
            });
        }
    });
    let web = plain(&["127.0.0.1"]);
    for _ in 0..count {
        assert_eq!(get(&web, &url).expect("a page").body, b"ok");
    }
    assert_eq!(*taken.lock().expect("no panic"), count);
}

#[test]
fn an_invalid_range_is_reported_by_its_index() {
    assert!(matches!(GuardedWeb::new(&open(&["::1", "x"])), Err((1, AddressRangeError))));
}
