//! What hostile pages cost while they are read. The tests measure in a process of their own, because other
//! tests of this process use memory at the same time.

use super::*;
use std::process::Command;

/// The largest page that a default configuration fetches.
const PAGE_BYTES: usize = 10 << 20;
/// The memory of a page in addition to its body.
const MAX_KB: u64 = (64 << 10) - (PAGE_BYTES as u64 >> 10);
/// Names the page that the child process reads.
const PAGE_VARIABLE: &str = "NANOCLAW_TEST_HOSTILE_PAGE";

fn repeated(part: &[u8]) -> Vec<u8> {
    part.repeat(PAGE_BYTES / part.len())
}

/// The start of a page, and the rest of it again and again.
fn after(start: &[u8], part: &[u8]) -> Vec<u8> {
    let mut page = start.to_vec();
    page.extend(part.repeat((PAGE_BYTES - start.len()) / part.len()));
    page
}

type HostilePage = (&'static str, &'static str, fn() -> Vec<u8>);

/// Name, content type, body.
const PAGES: &[HostilePage] = &[
    ("control characters", "text/html", || repeated(b"\x01")),
    ("control characters as entities", "text/html", || repeated(b"&#1;")),
    ("tables without an end", "text/html", || repeated(b"<table><tr><td>x")),
    ("items with many attributes", "text/html", || {
        repeated(
            b"<i href src alt id class role hidden aria-hidden style name property content itemprop title>x",
        )
    }),
    ("long attributes", "text/html", || {
        repeated([b"<a href='".as_slice(), &[b'a'; 8_000], b"'>"].concat().as_slice())
    }),
    ("one tag of many attributes", "text/html", || {
        (0..1_200_000).fold(b"<p ".to_vec(), |mut page, n| {
            page.extend(format!("a{n} ").into_bytes());
            page
        })
    }),
    ("preformatted text", "text/html", || after(b"<pre>", b"a\n")),
    ("a title", "text/html", || after(b"<title>", b"a</titl")),
    ("windows-1252", "text/html; charset=windows-1252", || repeated(b"\x80")),
    ("utf-16", "text/html", || after(b"\xff\xfe", b"\x2d\x4e")),
];

/// A number of `/proc/self/status`, KiB.
fn status_kb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Reads a page in all ways and prints the memory that this took.
fn measure((name, content_type, make): &HostilePage) {
    let body = make();
    let url = Url::parse("https://example.org/").expect("an address");
    std::fs::write("/proc/self/clear_refs", "5").expect("resets the peak");
    let before_kb = status_kb("VmRSS:");
    let text_bytes = {
        let page = WebPage::read(&body, Some(content_type), &url).expect("a page");
        drop((page.title(), page.description(), page.links(MAX_LINKS)));
        page.readable(TextFormat::Text).len().max(page.readable(TextFormat::Markdown).len())
    };
    let cost_kb = status_kb("VmHWM:").saturating_sub(before_kb);
    println!("\n{name}: {} bytes cost {cost_kb} KiB for {text_bytes} bytes of text", body.len());
    assert!(cost_kb <= MAX_KB, "{name} cost {cost_kb} KiB");
    assert!(text_bytes <= 5 << 20, "{name}: {text_bytes} bytes of text");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "reads each page in a process of its own")]
fn p8_a_hostile_page_costs_at_most_64_mib() {
    if let Ok(name) = std::env::var(PAGE_VARIABLE) {
        return measure(PAGES.iter().find(|page| page.0 == name).expect("a page"));
    }
    let own_name = "tools::web::page::memory_tests::p8_a_hostile_page_costs_at_most_64_mib";
    let mut faults = Vec::new();
    for (name, ..) in PAGES {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        let child = child.args([own_name, "--exact", "--nocapture", "--test-threads=1"]);
        let output = child.env(PAGE_VARIABLE, name).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = said.lines().find(|line| line.starts_with(&format!("{name}: "))).unwrap_or(&said);
        println!("{figure}");
        if !output.status.success() || !said.contains("1 passed") {
            faults.push(figure.to_owned());
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
