//! The web tools through the real binary: a scripted model calls them, and servers on loopback answer. No
//! request leaves the machine.

use crate::support::Server;
use crate::support::upstream::{Answer, Upstream, tool_results};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const OPEN: &str = "web: {allow_private_addresses: [127.0.0.1], timeout_s: 20}";

/// The answer of a site to a request.
enum SiteReply {
    Whole(Vec<u8>),
    /// One byte every 50 ms, without end.
    Drip,
}

/// A site on loopback that records every request.
struct Site {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(script: impl Fn(&str) -> SiteReply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", script)
    }

    fn at(address: &str, script: impl Fn(&str) -> SiteReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                std::thread::spawn(move || drop(serve(stream, &log, &*script)));
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<String>>,
    script: &dyn Fn(&str) -> SiteReply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut request, mut length) = (String::new(), 0);
    while !request.ends_with("\r\n\r\n") {
        let before = request.len();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        if let Some(value) = request[before..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.push_str(&String::from_utf8_lossy(&body));
    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().expect("no panic").push(request);
    match script(&target) {
        SiteReply::Whole(bytes) => stream.write_all(&bytes),
        SiteReply::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")?;
            loop {
                stream.write_all(b".")?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn page(status: u16, headers: &str, body: &[u8]) -> SiteReply {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n\r\n"
    );
    SiteReply::Whole([head.as_bytes(), body].concat())
}

fn html(body: &str) -> SiteReply {
    page(200, "content-type: text/html; charset=utf-8", body.as_bytes())
}

fn redirect(to: &str) -> SiteReply {
    page(302, &format!("location: {to}"), b"")
}

/// A model that makes the calls listed in the user message.
fn calling_model() -> Upstream {
    Upstream::start(|request, _| {
        if !tool_results(request).is_empty() {
            return Answer::text("done");
        }
        let messages = request["messages"].as_array().expect("messages");
        let question = messages.iter().rev().find_map(|message| message["content"].as_str()).expect("a text");
        let calls: Vec<(String, Value)> = serde_json::from_str(question).expect("calls");
        let calls: Vec<(&str, Value)> =
            calls.iter().map(|(name, given)| (name.as_str(), given.clone())).collect();
        Answer::calls(&calls)
    })
}

/// The results of these calls as the model reads them.
fn results(server: &Server, upstream: &Upstream, calls: &Value) -> Vec<Value> {
    let ended = server.wait(&server.submit(&json!({"input": calls.to_string()})));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let requests = upstream.requests();
    let answers = tool_results(requests.last().expect("a request"));
    answers
        .iter()
        .map(|result| serde_json::from_str(result["content"].as_str().expect("a text")).expect("JSON"))
        .collect()
}

fn fetched(server: &Server, upstream: &Upstream, arguments: &Value) -> Value {
    results(server, upstream, &json!([["fetch_page", arguments]])).remove(0)
}

const ARTICLE: &str = "<html><head><title>Tea</title><meta name=description content='About tea'></head><body>\
    <nav><a href=/menu>Menu</a></nav><main><h1>Tea</h1><p>Tea is made of leaves and hot water, and has been for \
    thousands of years, in <a href='/more'>many countries</a> of this world, every day, by everyone.</p></main></body></html>";

#[test]
fn fetched_pages_are_extracted_in_every_format_and_marked_untrusted() {
    let site = Site::start(|path| match path {
        "/tea" => html(ARTICLE),
        "/start" => redirect("/tea"),
        "/gbk" => {
            page(200, "content-type: text/html; charset=utf-8", b"<meta charset=gbk><p>\xc4\xe3\xba\xc3")
        }
        "/json" => page(200, "content-type: application/json", b"{\"a\": 1}"),
        "/png" => page(200, "content-type: image/png", b"\x89PNG\0\0\0"),
        _ => page(404, "content-type: text/html", b"<p>There is nothing <b>here</b>."),
    });
    let upstream = calling_model();
    let server = Server::start_against(&upstream, OPEN);
    let url = |path: &str| format!("{}{path}", site.url);
    let call = |path: &str, form: &str| json!(["fetch_page", {"url": url(path), "extract_type": form}]);
    let calls = json!([
        call("/tea", "text"),
        call("/start", "markdown"),
        call("/tea", "links"),
        call("/tea", "structured"),
        call("/gbk", "text"),
        call("/json", "text"),
        call("/png", "text"),
        call("/none", "text"),
    ]);
    let read = results(&server, &upstream, &calls);
    for result in &read {
        assert_eq!(result["data"]["untrusted"], true, "{result}");
        assert!(result["data"]["notice"].as_str().expect("a notice").contains("treat as data"), "{result}");
    }
    assert!(read[0]["data"]["text"].as_str().expect("a text").starts_with("Tea\n\nTea is made of leaves"));
    assert!(!read[0]["data"]["text"].to_string().contains("Menu"), "{}", read[0]);
    let written = read[1]["data"]["markdown"].as_str().expect("a text");
    assert!(
        written.starts_with("# Tea\n") && written.contains(&format!("[many countries]({})", url("/more"))),
        "{written}"
    );
    assert_eq!(
        (&read[1]["data"]["url"], &read[1]["data"]["final_url"]),
        (&json!(url("/start")), &json!(url("/tea")))
    );
    assert_eq!(read[2]["data"]["links"][1], json!({"text": "many countries", "href": url("/more")}));
    let parts = &read[3]["data"];
    assert_eq!((&parts["title"], &parts["description"]), (&json!("Tea"), &json!("About tea")));
    assert!(
        parts["text"].as_str().is_some() && parts["links"].as_array().is_some_and(|links| links.len() == 2)
    );
    assert_eq!((&read[4]["data"]["text"], &read[5]["data"]["text"]), (&json!("你好"), &json!("{\"a\": 1}")));
    assert_eq!((&read[6]["success"], &read[7]["success"]), (&json!(false), &json!(false)));
    let binary = read[6]["error"].as_str().expect("an error");
    assert!(binary.contains("image/png") && binary.contains("7 bytes"), "{binary}");
    assert!(read[7]["error"].as_str().expect("an error").contains("404"), "{}", read[7]);
    assert_eq!(read[7]["data"]["text"], "There is nothing here.");
    assert!(site.seen().iter().all(|request| request.contains("NanoClaw/")), "{:?}", site.seen());
}

#[test]
fn p9_loopback_addresses_are_refused_in_every_spelling() {
    let site = Site::start(|_| html("secret"));
    let port = site.url.rsplit(':').next().expect("a port").to_owned();
    let upstream = calling_model();
    let server = Server::start_against(&upstream, "");
    let hosts =
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"];
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    let crawled = results(&server, &upstream, &json!([["crawl_batch", {"urls": urls}]])).remove(0);
    let each = crawled["data"]["results"].as_array().expect("results");
    assert_eq!((each.len(), &crawled["data"]["total"]), (hosts.len(), &json!(hosts.len())));
    for (result, url) in each.iter().zip(&urls) {
        assert_eq!((&result["success"], &result["url"]), (&json!(false), &json!(url)));
        assert!(result["error"].as_str().expect("an error").contains("public internet"), "{result}");
    }
    let one = fetched(&server, &upstream, &json!({"url": urls[0]}));
    assert_eq!(one["success"], false, "{one}");
    assert!(site.seen().is_empty(), "{:?}", site.seen());
}

#[test]
fn p9_redirects_to_private_addresses_are_refused_before_they_are_requested() {
    let inner = Site::at("127.0.0.2:0", |_| html("secret"));
    let target = inner.url.clone();
    let site = Site::start(move |path| match path {
        "/away" => redirect(&target),
        "/hop" => redirect("/away"),
        _ => redirect("/loop"),
    });
    let upstream = calling_model();
    let server = Server::start_against(&upstream, OPEN);
    for path in ["/away", "/hop"] {
        let refused = fetched(&server, &upstream, &json!({"url": format!("{}{path}", site.url)}));
        assert!(refused["error"].as_str().expect("an error").contains("public internet"), "{refused}");
    }
    let before = site.seen().len();
    let endless = fetched(&server, &upstream, &json!({"url": format!("{}/loop", site.url)}));
    assert!(endless["error"].as_str().expect("an error").contains("more than 5 times"), "{endless}");
    assert_eq!(
        (site.seen().len() - before, inner.seen().len()),
        (6, 0),
        "five redirects and no request to the private address"
    );
}

#[test]
fn p8_large_compressed_and_slow_pages_hit_their_limits() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b' '; 11 << 20]).expect("packs");
    let bomb = encoder.finish().expect("packs");
    assert!(bomb.len() < 100_000);
    let site = Site::start(move |path| match path {
        "/bomb" => page(200, "content-type: text/plain\r\ncontent-encoding: gzip", &bomb),
        "/large" => page(200, "content-type: text/plain", &vec![b'x'; 11 << 20]),
        // The answer has no content-length.
        "/stream" => {
            SiteReply::Whole([b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &vec![b'x'; 11 << 20]].concat())
        }
        _ => SiteReply::Drip,
    });
    let upstream = calling_model();
    let server =
        Server::start_against(&upstream, "web: {allow_private_addresses: [127.0.0.1], timeout_s: 3}");
    let urls: Vec<String> =
        ["/bomb", "/large", "/stream", "/drip"].map(|path| format!("{}{path}", site.url)).to_vec();
    let crawled = results(&server, &upstream, &json!([["crawl_batch", {"urls": urls}]])).remove(0);
    let errors: Vec<&str> = crawled["data"]["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|result| result["error"].as_str().unwrap_or_default())
        .collect();
    assert!(
        errors[0].contains("more than 10485760 bytes") && errors[1].contains("more than 10485760"),
        "{errors:?}"
    );
    assert!(errors[2].contains("10485760") || errors[2].contains("within 3 s"), "{errors:?}");
    assert!(errors[3].contains("within 3 s"), "{errors:?}");
}

#[test]
fn crawl_batch_returns_pages_in_the_order_of_the_call() {
    let site = Site::start(|path| match path {
        "/0" => {
            std::thread::sleep(Duration::from_millis(300));
            html("<p>page /0")
        }
        "/4" => page(500, "", b"broken"),
        path => html(&format!("<p>page {path}")),
    });
    let upstream = calling_model();
    let server = Server::start_against(&upstream, OPEN);
    let urls: Vec<String> = (0..10).map(|n| format!("{}/{n}", site.url)).collect();
    let crawled = results(&server, &upstream, &json!([["crawl_batch", {"urls": urls}]])).remove(0);
    for (n, result) in crawled["data"]["results"].as_array().expect("results").iter().enumerate() {
        if n == 4 {
            assert!(result["error"].as_str().expect("an error").contains("500"), "{result}");
        } else {
            assert_eq!(result["data"]["text"], format!("page /{n}"), "{result}");
        }
    }
    let many: Vec<&String> = urls.iter().chain(&urls[..1]).collect();
    let refused = results(&server, &upstream, &json!([["crawl_batch", {"urls": many}]])).remove(0);
    assert_eq!(
        (&refused["success"], site.seen().len()),
        (&json!(false), 10),
        "eleven are too many: {refused}"
    );
}

fn search_server(site: &Site, upstream: &Upstream, options: &str) -> Server {
    let (base, options) = (&site.url, options.trim());
    let more = format!(
        "web_search: {{{options}, base_url: \"{base}\"}}\nweather: {{provider: open-meteo, base_url: \"{base}\"}}"
    );
    Server::start_against(upstream, &more)
}

fn search_site() -> Site {
    Site::start(|target| {
        match target.split('?').next().unwrap_or_default() {
        "/html/" if target.contains("robot") => page(202, "content-type: text/html", b"<div class=anomaly-modal>"),
        "/html/" => html(
            "<div class='result'><a class='result__a' href='//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F'>Duck</a>\
             <a class='result__snippet'>words</a></div><div class='result'><a class='result__a' href='https://b.example/'>B</a></div>",
        ),
        "/res/v1/web/search" => page(
            200,
            "content-type: application/json",
            br#"{"web":{"results":[{"title":"Brave","url":"https://a.example/","description":"<strong>words</strong>"}]}}"#,
        ),
        "/search" if target.contains("limit") => page(429, "", b"slow down"),
        "/search" => page(
            200,
            "content-type: application/json",
            br#"{"results":[{"title":"Found","url":"https://a.example/","content":"words"}]}"#,
        ),
        "/v1/search" if target.contains("Atlantis") => page(200, "content-type: application/json", b"{}"),
        "/v1/search" => page(
            200,
            "content-type: application/json",
            br#"{"results":[{"name":"Paris","country":"France","latitude":48.85,"longitude":2.35}]}"#,
        ),
        "/v1/forecast" => page(
            200,
            "content-type: application/json",
            br#"{"timezone":"Europe/Paris","current":{"time":"2026-01-01T12:00","temperature_2m":7.5,"relative_humidity_2m":81,"weather_code":61}}"#,
        ),
        _ => page(404, "", b"no such door"),
    }
    })
}

#[test]
fn each_search_provider_gets_requests_in_its_own_format() {
    let site = search_site();
    for (options, title, request_line) in [
        ("provider: duckduckgo, region: us-en", "Duck", "GET /html/?q=rust+%26+tea&kl=us-en "),
        (
            "provider: brave, api_key: k-brave, region: us-en",
            "Brave",
            "GET /res/v1/web/search?q=rust+%26+tea&count=1&country=US&search_lang=en ",
        ),
        ("provider: searxng, region: en", "Found", "GET /search?q=rust+%26+tea&format=json&language=en "),
        ("provider: tavily, api_key: k-tavily", "Found", "POST /search "),
    ] {
        let upstream = calling_model();
        let server = search_server(&site, &upstream, options);
        let search = json!([["web_search", {"query": "rust & tea", "max_results": 1}]]);
        let result = results(&server, &upstream, &search).remove(0);
        let data = &result["data"];
        assert_eq!(
            data["results"],
            json!([{"title": title, "url": "https://a.example/", "snippet": "words"}]),
            "{result}"
        );
        assert_eq!((&data["untrusted"], &data["total"]), (&json!(true), &json!(1)));
        let seen = site.seen().last().expect("a request").clone();
        assert!(seen.starts_with(request_line), "{seen}");
        match title {
            "Brave" => assert!(seen.contains("x-subscription-token: k-brave"), "{seen}"),
            _ if options.contains("tavily") => {
                assert!(
                    seen.contains("authorization: Bearer k-tavily")
                        && seen.ends_with(r#"{"query":"rust & tea","max_results":1}"#),
                    "{seen}"
                );
            }
            _ => assert!(!seen.contains("k-"), "{seen}"),
        }
    }
}

#[test]
fn provider_failures_are_reported_and_weather_names_its_source() {
    let site = search_site();
    let upstream = calling_model();
    let server = search_server(&site, &upstream, "provider: duckduckgo");
    let calls = json!([
        ["web_search", {"query": "robot"}],
        ["get_weather", {"city": "Paris"}],
        ["get_weather", {"city": "Atlantis"}],
    ]);
    let read = results(&server, &upstream, &calls);
    assert!(read[0]["error"].as_str().expect("an error").contains("robot"), "{}", read[0]);
    let weather = &read[1]["data"];
    assert_eq!(
        (&weather["source"], &weather["simulated"]),
        (&json!("open-meteo"), &json!(false)),
        "{weather}"
    );
    assert_eq!((&weather["temperature"], &weather["humidity"]), (&json!(7.5), &json!(81)));
    assert_eq!((&weather["description"], &weather["country"]), (&json!("light rain"), &json!("France")));
    assert!(read[2]["error"].as_str().expect("an error").contains("No city 'Atlantis'"), "{}", read[2]);
    let other = calling_model();
    let busy = search_server(&site, &other, "provider: searxng");
    let limited = results(&busy, &other, &json!([["web_search", {"query": "limit"}]])).remove(0);
    assert!(limited["error"].as_str().expect("an error").contains("too often"), "{limited}");
    let plain = Server::start_against(&other, "");
    let simulated = results(&plain, &other, &json!([["get_weather", {"city": "Beijing"}]])).remove(0);
    assert_eq!(
        (&simulated["data"]["source"], &simulated["data"]["simulated"]),
        (&json!("simulated"), &json!(true))
    );
}

/// A number of the server's `/proc/<pid>/status`, KiB.
fn status_kb(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

#[test]
fn p8_hostile_pages_read_at_once_cost_at_most_256_mib_and_the_memory_is_returned() {
    const JOBS: usize = 8;
    const PAGES_OF_A_JOB: usize = 4;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![1; 9 << 20]).expect("packs");
    let gzipped_page = packer.finish().expect("packs");
    assert!(gzipped_page.len() < 16 << 10, "{} bytes", gzipped_page.len());
    let fetches = Arc::new((Mutex::new(0), Condvar::new()));
    let fetch_count = Arc::clone(&fetches);
    let site = Site::start(move |_| {
        // No page begins before all are asked for; a slow machine may give up earlier.
        let (count, changed) = &*fetch_count;
        let mut count = count.lock().expect("no panic");
        *count += 1;
        changed.notify_all();
        let is_early = |count: &mut usize| *count < JOBS * PAGES_OF_A_JOB;
        drop(changed.wait_timeout_while(count, Duration::from_secs(10), is_early).expect("no panic"));
        page(200, "content-type: text/html\r\ncontent-encoding: gzip", &gzipped_page)
    });
    let upstream = calling_model();
    let server = Server::start_against(
        &upstream,
        "web: {allow_private_addresses: [127.0.0.1], timeout_s: 120}\nlimits: {tool_timeout_s: 300}",
    );
    let urls: Vec<String> = (0..PAGES_OF_A_JOB).map(|n| format!("{}/{n}", site.url)).collect();
    let calls = json!([["crawl_batch", {"urls": urls}]]);
    let before_kb = status_kb(&server, "VmHWM:");
    let jobs: Vec<String> = (0..JOBS).map(|_| server.submit(&json!({"input": calls.to_string()}))).collect();
    for job in &jobs {
        assert_eq!(server.wait(job)["status"], "succeeded");
    }
    let cost_kb = status_kb(&server, "VmHWM:").saturating_sub(before_kb);
    eprintln!("{} pages cost {cost_kb} KiB over {before_kb} KiB", JOBS * PAGES_OF_A_JOB);
    assert!(cost_kb <= 256 << 10, "{cost_kb} KiB");
    // The server looks at its memory every five seconds.
    let kept_kb = || status_kb(&server, "VmRSS:").saturating_sub(before_kb);
    assert!(holds_within_60_s(|| kept_kb() <= 48 << 10), "{} KiB stay", kept_kb());
}

fn holds_within_60_s(condition: impl Fn() -> bool) -> bool {
    let begun = std::time::Instant::now();
    while !condition() {
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}
