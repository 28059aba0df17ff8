//! `nanoclaw eval`: cases over models, with the real binary as server and as client.

use super::{file, run, text};
use crate::support::Server;
use crate::support::upstream::{Answer, Upstream};
use serde_json::{Value, json};

/// A model that answers with its name and the question.
fn models() -> (Upstream, Server) {
    let upstream = Upstream::start(|request, _| {
        let messages = request["messages"].as_array().expect("messages");
        let question = messages.last().expect("a message")["content"].as_str().expect("a text");
        Answer::text(&format!("{} {question}", request["model"].as_str().expect("a model")))
    });
    let config = format!(
        "default_model: one\nmodels:\n  - {{id: one, api_url: \"{0}/v1\"}}\n  - {{id: two, api_url: \"{0}/v1\"}}\n",
        upstream.url
    );
    let server = Server::start_with(&config);
    (upstream, server)
}

#[test]
fn cases_are_checked_over_models_and_reported() {
    let (_upstream, server) = models();
    let cases = [
        json!({"id": "<b>greeting</b>", "input": "hello", "checks": [{"contains": "hello"}, {"regex": "^one "}]}),
        json!({"input": "{\"a\":1}", "checks": [{"not_contains": "sorry"}]}),
    ];
    let lines = cases.iter().map(|case| format!("{case}\n")).collect::<Vec<_>>().concat();
    let cases = file(&server, "cases.jsonl", &lines);
    let (json_path, html_path) = (server.dir.join("out.json"), server.dir.join("out.html"));
    let ran = run(
        &server,
        &[
            "eval",
            text(&cases),
            "--model",
            "one",
            "--model",
            "two",
            "--json",
            text(&json_path),
            "--html",
            text(&html_path),
        ],
    );
    assert_eq!(ran.code, 1, "model two fails a check: {}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("2 of 2") && ran.out.contains("1 of 2") && ran.out.contains("50%"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("regex ^one: the expression matches nothing"), "{}", ran.out);
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json_path).expect("read")).expect("JSON");
    assert_eq!(
        (&report["failed"], report["results"].as_array().map(Vec::len)),
        (&json!(1), Some(4)),
        "{report}"
    );
    assert_eq!((&report["models"][0]["passed"], &report["models"][1]["passed"]), (&json!(2), &json!(1)));
    assert_eq!(report["results"][1]["output_text"], "two hello");
    assert!(report["results"][0]["usage"]["total_tokens"].as_u64().expect("a number") > 0);
    let page = std::fs::read_to_string(&html_path).expect("read");
    assert!(page.contains("&lt;b&gt;greeting&lt;/b&gt;") && !page.contains("<b>greeting"), "{page}");
    let good = run(&server, &["eval", text(&cases), "--model", "one", "--concurrency", "1"]);
    assert_eq!(good.code, 0, "{}{}", good.out, good.err);
}

#[test]
fn bad_lines_are_named_before_anything_is_submitted() {
    let (_upstream, server) = models();
    let good = json!({"input": "hello", "checks": [{"contains": "hello"}]});
    let cases =
        format!("{good}\n{{\"input\":\"a\",\"checks\":[{{\"contian\":\"a\"}}]}}\n{{\"input\":\"a\"}}\n");
    let ran = run(&server, &["eval", text(&file(&server, "cases.jsonl", &cases))]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("line 2: ") && ran.err.contains("line 3: "), "{}", ran.err);
    // What only the server can know is named with the line, too.
    let unknown = json!({"input": "hello", "max_stepz": 3, "checks": [{"contains": "hello"}]});
    let cases = file(&server, "cases.jsonl", &format!("{good}\n\n{unknown}\n"));
    let ran = run(&server, &["eval", text(&cases), "--model", "one"]);
    assert!(ran.code == 1 && ran.err.contains("line 3 with model one: "), "{}", ran.err);
    assert_eq!(server.get("/v1/jobs").json()["data"], json!([]));
    assert_eq!(server.get("/v1/batches").json()["data"], json!([]));
}

#[test]
fn a_report_that_cannot_be_written_costs_no_tokens() {
    let (_upstream, server) = models();
    let case = json!({"input": "hello", "checks": [{"contains": "hello"}]});
    let cases = file(&server, "cases.jsonl", &format!("{case}\n"));
    let directory = server.dir.to_str().expect("UTF-8").to_owned();
    for path in [format!("{directory}/no/such/report"), directory] {
        for kind in ["--json", "--html"] {
            let ran = run(&server, &["eval", text(&cases), "--model", "one", kind, &path]);
            assert!(ran.code == 1 && ran.err.contains(&format!("cannot write '{path}'")), "{}", ran.err);
        }
    }
    let report = file(&server, "report", "");
    for paths in [[text(&cases), "x.html"], ["-", "x.html"], [text(&report), text(&report)]] {
        let ran =
            run(&server, &["eval", text(&cases), "--model", "one", "--json", paths[0], "--html", paths[1]]);
        assert!(ran.code == 1 && ran.err.contains("cannot be a report"), "{}", ran.err);
    }
    assert!(std::fs::read_to_string(&cases).expect("there").contains("hello"));
    assert_eq!(server.get("/v1/batches").json()["data"], json!([]), "nothing was submitted");
}

#[test]
fn a_program_checks_the_answer_in_the_sandbox() {
    let (_upstream, server) = models();
    let cases = json!({"input": "hello", "checks": [{"program": "grep -q hello"}, {"program": "grep -q nothing || { echo lacks it >&2; exit 3; }"}]});
    let cases = file(&server, "cases.jsonl", &format!("{cases}\n"));
    let ran = run(&server, &["eval", text(&cases)]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("exit code 3: lacks it") && !ran.out.contains("grep -q hello:"),
        "{}{}",
        ran.out,
        ran.err
    );
}
