//! Runs that move between servers, with the real binary: export, import, and what an import refuses.

mod eval;
mod replay;

use crate::support::upstream::{Act, Answer, Upstream, tool_results};
use crate::support::{Ran, Reply, Server, against, command};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const GIF: &[u8] = b"GIF89a, and the rest of the picture";

/// Two calls, then an answer in two pieces.
fn agent() -> Upstream {
    Upstream::start(|request, _| match tool_results(request).len() {
        0 => Answer::calls(&[
            ("calculator", json!({"expression": "6*7"})),
            ("text_process", json!({"text": "abc", "operation": "upper"})),
        ]),
        // One word, so that it is one record.
        _ => Answer::text("the-answer-is-42"),
    })
}

fn run(server: &Server, arguments: &[&str]) -> Ran {
    command(arguments).args(["--server", &server.url]).output().expect("the binary runs").into()
}

/// The text of a run, as the server exports it.
fn export(server: &Server, job: &str) -> String {
    let reply = server.get(&format!("/v1/jobs/{job}/export"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

fn import(server: &Server, text: &str) -> Reply {
    server.request(("POST", "/v1/jobs/import"), &[("content-type", "application/jsonl")], text)
}

fn file(server: &Server, name: &str, text: &str) -> PathBuf {
    let path = server.dir.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The events as a client gets them, to the byte.
fn raw_events(server: &Server, job: &str) -> String {
    let path = format!("/v1/jobs/{job}/events?format=delta&follow=false");
    server.get_with(&path, &[("accept", "application/x-ndjson")]).body
}

fn changed(text: &str, line: usize, change: impl Fn(&str) -> String) -> String {
    let change = |(nth, old): (usize, &str)| if nth == line { change(old) } else { format!("{old}\n") };
    text.lines().enumerate().map(change).collect()
}

#[test]
fn an_imported_run_has_the_same_events_to_the_byte() {
    let upstream = agent();
    let first = Server::start_against(&upstream, "");
    let second = Server::start();
    let body = json!({"input": "go", "metadata": {"team": "a"}, "conversation_id": "trip",
        "webhook_url": "https://example.org/hook"});
    let job = first.submit(&body);
    let ended = first.wait(&job);
    let path = first.dir.join("run.jsonl");
    let exported = run(&first, &["export", &job, "-o", text(&path)]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    let again = run(&first, &["export", &job, "-o", text(&path)]);
    assert!(again.code == 1 && again.err.contains("--force"), "{}", again.err);
    let imported = run(&second, &["import", text(&path)]);
    assert_eq!((imported.code, imported.out), (0, format!("{job} stored\n")), "{}", imported.err);
    assert_eq!(raw_events(&second, &job), raw_events(&first, &job));
    let mut shown = second.get(&format!("/v1/jobs/{job}")).json();
    assert!(shown["imported_at"].as_u64().is_some(), "{shown}");
    shown.as_object_mut().expect("an object").remove("imported_at");
    assert_eq!(shown, ended);
    // The log is the same, too; the second server has no conversation for the job.
    let log = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(log(&export(&second, &job)), log(&export(&first, &job)));
    assert_eq!(second.get("/v1/usage").json()["data"], json!([]), "its usage counts where it ran");
    let replayed = run(&second, &["import", text(&path)]);
    assert_eq!((replayed.code, replayed.out), (0, format!("{job} unchanged\n")));
    assert_eq!(second.get("/v1/webhooks").json()["data"], json!([]), "no webhook is sent again");
    assert_eq!(second.get("/v1/jobs?conversation_id=trip").json()["data"][0]["id"], job);
    let retry = second.ask("POST", &format!("/v1/jobs/{job}/retry"), &Value::Null);
    assert_eq!(retry.status, 409, "{}", retry.body);
    assert_eq!(second.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null).status, 200);
    assert_eq!(second.get(&format!("/v1/jobs/{job}")).status, 404);
    assert_eq!(import(&second, &export(&first, &job)).status, 201, "it can come again");
}

#[test]
fn the_head_of_an_exported_run_proves_its_records() {
    let upstream = agent();
    let (first, second) = (Server::start_against(&upstream, ""), Server::start());
    let job = first.submit(&json!({"input": "go"}));
    let head = first.wait(&job)["log_head"].as_str().expect("a head").to_owned();
    let whole = export(&first, &job);
    assert_eq!(run(&first, &["verify", text(&file(&first, "run.jsonl", &whole))]).code, 0);
    let changed = whole.replace("the-answer-is-42", "the-answer-is-43");
    let ran = run(&first, &["verify", text(&file(&first, "changed.jsonl", &changed))]);
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    let place = |text: &str| {
        let is_record = |line: &&str| line.starts_with("{\"seq\":") && line.contains("the-answer-is-4");
        let line = text.lines().find(is_record).expect("the record");
        line.split([':', ',']).nth(1).expect("its number").to_owned()
    };
    let named = format!("event {} was changed", place(&changed));
    assert!(ran.out.contains(&named), "{} names no {named}", ran.out);
    let refused = import(&second, &changed);
    assert!(refused.status == 400 && refused.body.contains(&named), "{}", refused.body);
    // An earlier version wrote no links: the head alone proves the records.
    let links = regex::Regex::new(r#","link":"[0-9a-f]{64}""#).expect("a pattern");
    let (older, older_changed) = (links.replace_all(&whole, ""), links.replace_all(&changed, ""));
    assert_ne!(older, whole.as_str());
    assert_eq!(run(&first, &["verify", text(&file(&first, "older.jsonl", &older))]).code, 0);
    let ran = run(&first, &["verify", text(&file(&first, "older.jsonl", &older_changed))]);
    assert!(ran.code == 1 && ran.out.contains("does not have the head"), "{} {}", ran.out, ran.err);
    let refused = import(&second, &older_changed);
    assert!(refused.status == 400 && refused.body.contains("the head"), "{}", refused.body);
    assert_eq!(import(&second, &older).status, 201);
    assert_eq!(import(&second, &whole).json()["outcome"], "unchanged");
    assert_eq!(export(&second, &job).lines().nth(1), whole.lines().nth(1), "the links are the same here");
    let imported = second.get(&format!("/v1/jobs/{job}")).json();
    assert_eq!(imported["log_head"], json!(head), "the chain is the same here");
    let verified = run(&second, &["verify", &job, "--head", &head]);
    assert_eq!(verified.code, 0, "{} {}", verified.out, verified.err);
}

#[test]
fn the_signature_of_an_exported_run_proves_its_request_and_answer() {
    let upstream = agent();
    let (first, second) = (Server::start_against(&upstream, ""), Server::start());
    let job = first.submit(&json!({"input": "go"}));
    first.wait(&job);
    let key_of =
        |server: &Server| server.get("/v1/log/key").json()["public_key"].as_str().expect("a key").to_owned();
    let (key, other) = (key_of(&first), key_of(&second));
    let whole = export(&first, &job);
    let path = file(&first, "run.jsonl", &whole);
    let verify = |path: &Path, keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        let arguments: Vec<&str> = ["verify", text(path), "--json"].into_iter().chain(keys).collect();
        let ran = run(&first, &arguments);
        (ran.code, serde_json::from_str::<Value>(&ran.out).expect("a verdict"))
    };
    for (keys, code) in [(vec![], 0), (vec![&*key], 0), (vec![&*other, &*key], 0), (vec![&*other], 1)] {
        let (found, verdict) = verify(&path, &keys);
        assert_eq!((found, &verdict["signed_by"]), (code, &json!(key)), "{keys:?}: {verdict}");
    }
    for (old, new) in [("\"content\":\"go\"", "\"content\":\"no\""), ("\"output\":\"the-", "\"output\":\"a-")]
    {
        assert!(whole.lines().next().expect("a header").contains(old), "{whole}");
        let changed = whole.replacen(old, new, 1);
        let path = file(&first, "changed.jsonl", &changed);
        let (code, verdict) = verify(&path, &[]);
        assert!(code == 1 && verdict["fault"].to_string().contains("its first line"), "{verdict}");
        let refused = import(&second, &changed);
        assert!(refused.status == 400 && refused.body.contains("its first line"), "{}", refused.body);
        let ran = run(&first, &["replay", text(&path), "--json"]);
        assert!(ran.out.contains("\"fault\":\"its first line"), "{} {}", ran.out, ran.err);
    }
    // A removed signature is a fault for a reader who has the key.
    let seal = whole.find(",\"signed_by\":").expect("a signature");
    let (head, rest) = (&whole[..seal], whole.split_once('\n').expect("lines").1);
    let path = file(&first, "unsigned.jsonl", &format!("{head}}}\n{rest}"));
    assert_eq!((verify(&path, &[]).0, verify(&path, &[&key]).0), (0, 1));
    assert_eq!(import(&second, &whole).status, 201);
    let again = file(&first, "again.jsonl", &export(&second, &job));
    assert_eq!(verify(&again, &[&other]).1["signed_by"], other.as_str(), "the second server has written it");
}

#[test]
fn a_failed_imported_job_does_not_run_here() {
    let upstream = Upstream::start(|_, _| Answer::error(400, "no such thing"));
    let first = Server::start_against(&upstream, "");
    let job = first.submit(&json!({"input": "go"}));
    assert_eq!(first.wait(&job)["status"], "failed");
    let second = Server::start();
    assert_eq!(import(&second, &export(&first, &job)).status, 201);
    let shown = second.get(&format!("/v1/jobs/{job}")).json();
    assert_eq!(shown["error"], first.get(&format!("/v1/jobs/{job}")).json()["error"]);
    let retry = second.ask("POST", &format!("/v1/jobs/{job}/retry"), &Value::Null);
    assert_eq!(retry.json()["error"]["code"], "job_imported", "{}", retry.body);
}

#[test]
fn images_move_with_their_run() {
    let config = |url: &str| format!("models:\n  - {{id: eyes, vision: true, api_url: \"{url}/v1\"}}\n");
    let upstream = Upstream::start(|_, _| Answer::text("a picture"));
    let (first, second) = (Server::start_with(&config(&upstream.url)), Server::start());
    let image = json!({"name": "a.gif", "extension": "gif", "content": STANDARD.encode(GIF)});
    let message = json!({"role": "user", "content": "look", "attachments": [image]});
    let job = first.submit(&json!({"input": [message]}));
    assert_eq!(first.wait(&job)["status"], "succeeded");
    let run = export(&first, &job);
    assert!(run.contains(&format!("\"data\":\"{}\"", STANDARD.encode(GIF))), "{run}");
    assert_eq!(import(&second, &run).status, 201);
    let shown = second.get(&format!("/v1/jobs/{job}/images/0"));
    assert_eq!((shown.status, shown.body.as_bytes()), (200, GIF));
    // A run cannot show what another account stored under a digest.
    let third = Server::start();
    let file = run.lines().position(|line| line.starts_with("{\"sha256\":")).expect("a file");
    let without = changed(&run, file, |_| String::new()).replace("\"files\":1", "\"files\":0");
    let refused = import(&third, &without);
    assert!(refused.status == 400 && refused.body.contains("is missing"), "{}", refused.body);
    // A second length would count against nobody's quota.
    let image = run.lines().next().expect("a header").split_once("\"images\":[").expect("images").1;
    let image = &image[..=image.find('}').expect("its end")];
    let bytes = format!("\"bytes\":{}", GIF.len());
    let longer = image.replace(&bytes, "\"bytes\":9007199254740992");
    assert_ne!(longer, image, "{run}");
    let twice = run.replacen(image, &format!("{image},{longer}"), 1);
    assert!(import(&third, &twice).body.contains("of this digest and length"));
    let other =
        changed(&run, file, |line| line.replace(&STANDARD.encode(GIF), &STANDARD.encode(b"GIF89a!")) + "\n");
    assert!(import(&third, &other).body.contains(&format!("line {}: ", file + 1)));
}

#[test]
fn an_import_names_the_line_of_a_fault_and_stores_nothing() {
    let upstream = agent();
    let first = Server::start_against(&upstream, "");
    let job = first.submit(&json!({"input": "go"}));
    first.wait(&job);
    let run = export(&first, &job);
    let lines = run.lines().count();
    let second = Server::start();
    let replace = |line, old: &'static str, new: &'static str| {
        assert!(run.lines().nth(line).expect("a line").contains(old), "{line}: {old}");
        changed(&run, line, |text| text.replacen(old, new, 1) + "\n")
    };
    let cases = [
        (replace(0, "\"version\":1", "\"version\":9"), "line 1: the run has version 9"),
        (replace(0, "\"status\":\"succeeded\"", "\"status\":\"running\""), "line 1: the job is running"),
        (replace(0, "nanoclaw.run", "nanoclaw.walk"), "line 1: the first line of a run is"),
        (
            replace(0, "\"status\":\"succeeded\"", "\"status\":\"failed\""),
            "the log does not end with the event",
        ),
        (replace(2, "\"event\":\"status\"", "\"event\":\"fly\""), "line 3: record 2.0 cannot be read"),
        (changed(&run, 2, |_| String::new()), "line 3: record 3.0 follows 1.0: one is missing"),
        (changed(&run, 2, |_| "nonsense\n".to_owned()), "line 3: it is neither a record nor a file"),
        (changed(&run, lines - 1, |_| String::new()), "the run ends without its last line"),
        (changed(&run, lines - 1, |line| line.replace("\"files\":0", "\"files\":1")), "it counts"),
        (format!("{run}{run}"), "the run is over"),
        (String::new(), "line 1: the file holds no run"),
    ];
    for (text, expected) in cases {
        let refused = import(&second, &text);
        assert!(refused.status == 400 && refused.body.contains(expected), "{expected}: {}", refused.body);
    }
    assert_eq!(second.get("/v1/jobs").json()["data"], json!([]));
    let bad = file(&second, "bad.jsonl", &format!("{run}{}", replace(0, "\"version\":1", "\"version\":9")));
    let ran = self::run(&second, &["import", text(&bad)]);
    let expected = format!("line {}: the run has version 9", lines + 1);
    assert!(ran.code == 1 && ran.err.contains(&expected), "{}", ran.err);
    assert_eq!(ran.out, format!("{job} stored\n"), "the run before it is stored");
}

#[test]
fn p8_a_large_run_is_refused_by_its_limit() {
    let upstream = agent();
    let first = Server::start_against(&upstream, "");
    let job = first.submit(&json!({"input": "x".repeat(2_000)}));
    first.wait(&job);
    let second = Server::start_with("limits: {import_bytes: 1024}\n");
    let refused = import(&second, &export(&first, &job));
    assert!(refused.status == 413 && refused.body.contains("limits.import_bytes = 1024"), "{}", refused.body);
}

/// A line as a server without chains has it.
fn without_link(line: &str) -> String {
    match line.split_once(",\"link\":\"") {
        Some((place, rest)) => format!("{place}{}", rest.split_once('"').map_or("", |(_, rest)| rest)),
        None => line.to_owned(),
    }
}

#[test]
fn an_unfinished_job_is_not_exported_and_a_taken_id_not_replaced() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::text("first"),
        _ => Answer::stream(vec![Act::Hang]),
    });
    let server = Server::start_against(&upstream, "");
    let job = server.submit(&json!({"input": "go"}));
    let head = server.wait(&job)["log_head"].to_string();
    let unlinked: Vec<String> = export(&server, &job).lines().map(without_link).collect();
    let unsigned =
        regex::Regex::new(r#","signed_by":"[0-9a-f]*","signature":"[0-9a-f]*""#).expect("a pattern");
    let unproven = unlinked.join("\n").replace(&format!(",\"log_head\":{head}"), "");
    let refused = import(&server, &unproven);
    assert!(refused.status == 400 && refused.body.contains("its first line"), "{}", refused.body);
    let unproven = unsigned.replace(&unproven, "");
    let other = unproven.replace("\"token_count\":", "\"token_count\":1");
    let refused = import(&server, &other);
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (409, &json!("job_exists")),
        "{}",
        refused.body
    );
    assert_eq!(server.get(&format!("/v1/jobs/{job}")).json()["output_text"], "first");
    let hanging = server.submit(&json!({"input": "hang"}));
    let refused = server.get(&format!("/v1/jobs/{hanging}/export"));
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (409, &json!("job_not_ended")),
        "{}",
        refused.body
    );
    let all = run(&server, &["export", "--all"]);
    assert!(all.code == 0 && all.err.contains("1 jobs skipped"), "{}", all.err);
    assert_eq!(all.out.lines().filter(|line| line.starts_with("{\"kind\":\"nanoclaw.run\"")).count(), 1);
}

#[test]
fn the_runs_of_a_conversation_and_of_a_batch_are_exported_in_their_order() {
    let first = Server::start();
    for input in ["one", "two"] {
        first.wait(&first.submit(&json!({"input": input, "conversation_id": "chat"})));
    }
    first.wait(&first.submit(&json!({"input": "elsewhere"})));
    let ran = run(&first, &["export", "--conversation", "chat"]);
    let inputs: Vec<String> = ran
        .out
        .lines()
        .filter(|line| line.starts_with("{\"kind\":\"nanoclaw.run\""))
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["request"]["input"][0]["content"].to_string()
        })
        .collect();
    assert_eq!(inputs, ["\"one\"", "\"two\""], "{}", ran.err);
    let second = Server::start();
    let runs = file(&second, "runs.jsonl", &ran.out);
    let imported = run(&second, &["import", text(&runs), "--json"]);
    let outcomes: Value = serde_json::from_str(&imported.out).expect("JSON");
    assert_eq!(outcomes.as_array().map(Vec::len), Some(2), "{}", imported.err);
    assert_eq!(outcomes[1]["outcome"], "stored");
    assert_eq!(second.get("/v1/jobs").json()["data"][0]["input"], "two");
    let nothing = run(&first, &["export"]);
    assert_eq!(nothing.code, 2, "{}", nothing.err);
}

#[test]
fn p7_a_run_of_another_user_is_neither_exported_nor_overwritten() {
    let server = Server::start_with("auth_mode: multi\n");
    let register = |name: &str| {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body);
        format!("Bearer {}", reply.json()["data"]["token"].as_str().expect("a token"))
    };
    let (ann, bob) = (register("ann"), register("bob"));
    let send = |token: &str, method: &'static str, path: &str, body: &str| {
        server.request((method, path), &[("authorization", token)], body)
    };
    let job = send(&ann, "POST", "/v1/jobs?wait=30", &json!({"input": "only-for-ann"}).to_string()).json();
    let id = job["id"].as_str().expect("an id");
    let (export, unknown) =
        (format!("/v1/jobs/{id}/export"), "/v1/jobs/job_01ARZ3NDEKTSV4RRFFQ69G5FAV/export");
    let run = send(&ann, "GET", &export, "").body;
    assert_eq!(send(&bob, "GET", &export, "").body, send(&bob, "GET", unknown, "").body);
    let taken = send(&bob, "POST", "/v1/jobs/import", &run);
    assert_eq!(taken.status, 409, "{}", taken.body);
    assert!(!taken.body.contains("only-for-ann"), "{}", taken.body);
    assert_eq!(send(&bob, "GET", &format!("/v1/jobs/{id}"), "").status, 404);
    assert_eq!(send(&ann, "POST", "/v1/jobs/import", &run).json()["outcome"], "unchanged");
}

#[test]
fn an_imported_run_survives_a_restart_and_a_crash() {
    let upstream = agent();
    let first = Server::start_against(&upstream, "");
    let job = first.submit(&json!({"input": "go"}));
    first.wait(&job);
    let second = Server::start_against(&upstream, "");
    assert_eq!(import(&second, &export(&first, &job)).status, 201);
    let second = second.crash_and_restart(&against(&upstream, ""));
    assert_eq!(raw_events(&second, &job), raw_events(&first, &job));
}
