//! The answers of each provider, and pages that are no answer.

use super::providers::{read_brave, read_list};
use super::*;

const DUCK: &str = r#"<html><body><div id="links" class="results">
<div class="result results_links result--ad"><h2><a class="result__a" href="//duckduckgo.com/y.js?ad_domain=x.example">Buy</a></h2></div>
<div class="result results_links web-result"><h2 class="result__title">
<a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.rust%2Dlang.org%2Fa%3Fb%3D1%26c&amp;rut=f00">Rust <b>language</b></a></h2>
<a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">A   language &amp; its <b>tools</b>.</a></div>
<div class="result web-result"><a class="result__a" href="https://example.org/plain">Plain</a></div>
<div class="result web-result"><a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad_domain%3Dy">Ad</a></div>
<div class="result web-result"><a class="result__a" href="javascript:x()">Bad</a></div>
</div></body></html>"#;

fn result(title: &str, url: &str, snippet: &str) -> WebSearchResult {
    WebSearchResult { title: title.into(), url: url.into(), snippet: snippet.into() }
}

#[test]
fn duckduckgo_results_have_page_urls_and_no_advertisements() {
    let read: Vec<WebSearchResult> =
        duckduckgo::read(DUCK).expect("results").into_iter().map(WebSearchResult::normalized).collect();
    let first = result("Rust language", "https://www.rust-lang.org/a?b=1&c", "A language & its tools.");
    assert_eq!(read, [first, result("Plain", "https://example.org/plain", "")]);
    assert_eq!(duckduckgo::read("<div class='no-results'>No results.</div>"), Ok(Vec::new()));
}

#[test]
fn duckduckgo_robot_checks_are_failures() {
    let robot = "<div class='anomaly-modal__title'>Unfortunately, bots use DuckDuckGo too.</div>";
    for (page, words) in [(robot, "robot"), ("<p>hello", "no list of results"), ("", "no list of results")] {
        let failed = duckduckgo::read(page).expect_err(page).to_string();
        assert!(failed.contains(words), "{failed}");
    }
}

#[test]
fn json_results_of_each_search_provider_are_parsed() {
    let item = |snippet: &str| json!({"title": "T &amp; <strong>U</strong>", "url": "https://a.example/", snippet: "s <strong>t</strong>"});
    let bad = json!({"title": "x", "url": "javascript:x()"});
    assert_eq!(
        read_brave(&json!({"web": {"results": [item("description"), bad]}})),
        [result("T & U", "https://a.example/", "s t")]
    );
    let expected = [result("T &amp; <strong>U</strong>", "https://a.example/", "s <strong>t</strong>")];
    for answer in [json!({"results": [item("content"), bad, 5]}), json!({"results": [item("content")]})] {
        assert_eq!(read_list(answer.get("results"), "content"), expected);
    }
    for nothing in [json!({}), json!([]), json!({"results": null, "web": 5})] {
        assert!(read_brave(&nothing).is_empty() && read_list(nothing.get("results"), "content").is_empty());
    }
}
