//! Resources: jobs and files of projects.

use super::McpClient;
use crate::support::Server;
use serde_json::{Value, json};

/// The URIs of all pages.
fn uris(client: &McpClient<'_>) -> Vec<String> {
    let (mut uris, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.result("resources/list", &params);
        let resources = page["resources"].as_array().expect("resources");
        uris.extend(resources.iter().map(|one| one["uri"].as_str().expect("a URI").to_owned()));
        assert!(resources.iter().all(|one| one["name"].is_string()), "{page}");
        if page["nextCursor"].is_null() {
            return uris;
        }
        params = json!({"cursor": page["nextCursor"]});
    }
}

fn project(server: &Server, name: &str) -> String {
    let made = server.post("/api/projects", &json!({"name": name})).json();
    made["data"]["id"].as_str().expect("an id").to_owned()
}

fn write(server: &Server, project: &str, path: &str, text: &str) {
    let reply =
        server.ask("PUT", &format!("/api/projects/{project}/files/{path}"), &json!({"content": text}));
    assert_eq!(reply.status, 200, "{}", reply.body);
}

#[test]
fn jobs_and_files_are_listed_page_by_page_and_read() {
    let server = Server::start_with("limits: {page: 2, page_max: 2}\n");
    let client = McpClient::open(&server);
    let jobs: Vec<String> = (0..3).map(|at| server.submit(&json!({"input": format!("job {at}")}))).collect();
    for job in &jobs {
        drop(server.wait(job));
    }
    let (one, two) = (project(&server, "one"), project(&server, "two"));
    for path in ["a.txt", "deep/b c.txt", "deep/er/ü.txt"] {
        write(&server, &one, path.replace(' ', "%20").replace('ü', "%C3%BC").as_str(), path);
    }
    write(&server, &two, "d.txt", "d");
    let uris = uris(&client);
    let job_uris: Vec<String> = jobs.iter().rev().map(|job| format!("nanoclaw://jobs/{job}")).collect();
    assert_eq!(uris[..3], job_uris, "jobs first, the newest first");
    let files = uris[3..].to_vec();
    assert_eq!(files.len(), 4, "{files:?}");
    for uri in &files {
        let read = client.result("resources/read", &json!({"uri": uri}));
        let content = &read["contents"][0];
        assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &json!("text/plain")), "{read}");
    }
    let odd = files.iter().find(|uri| uri.ends_with("deep/er/%C3%BC.txt")).expect("an escaped name");
    assert_eq!(client.result("resources/read", &json!({"uri": odd}))["contents"][0]["text"], "deep/er/ü.txt");
    let job = client.result("resources/read", &json!({"uri": job_uris[0]}));
    let text = job["contents"][0]["text"].as_str().expect("a text");
    let told: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&told["id"], &told["status"]), (&json!(jobs[2]), &json!("succeeded")));
    let templates = client.result("resources/templates/list", &json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().map(Vec::len), Some(2), "{templates}");
}

#[test]
fn a_file_that_is_no_text_is_base64() {
    let server = Server::start();
    let client = McpClient::open(&server);
    client.done("run_shell", &json!({"command": "printf '\\377\\000\\001' > x.bin"}));
    let uris = uris(&client);
    let uri = uris.iter().find(|uri| uri.ends_with("/x.bin")).expect("the file is listed");
    let content = client.result("resources/read", &json!({"uri": uri}))["contents"][0].clone();
    assert_eq!(
        (&content["blob"], &content["mimeType"]),
        (&json!("/wAB"), &json!("application/octet-stream")),
        "{content}"
    );
}

#[test]
fn what_is_not_there_hidden_or_too_large_is_not_read() {
    let server = Server::start_with("limits: {file_bytes: 2048}\n");
    let client = McpClient::open(&server);
    let id = project(&server, "one");
    write(&server, &id, ".env", "KEY=only-for-ann");
    write(&server, &id, "seen.txt", "seen");
    let listed = uris(&client);
    assert!(
        listed.iter().any(|uri| uri.ends_with("seen.txt")) && !listed.iter().any(|uri| uri.contains(".env"))
    );
    let base = format!("nanoclaw://projects/{id}/files");
    for uri in [
        format!("{base}/.env"),
        format!("{base}/missing.txt"),
        format!("{base}/../../secret"),
        format!("{base}/%2E%2E/x"),
        format!("{base}/a%2Fb"),
        "nanoclaw://projects/proj_00000000000000000000000000/files/seen.txt".to_owned(),
        "nanoclaw://jobs/job_00000000000000000000000000".to_owned(),
        "nanoclaw://jobs/1".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let error = client.error("resources/read", &json!({"uri": uri}));
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32_002), &json!(uri)), "{error}");
    }
    client.done("run_shell", &json!({"command": "head -c 4000 /dev/zero > big", "project_id": id}));
    let error = client.error("resources/read", &json!({"uri": format!("{base}/big")}));
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("limits.file_bytes = 2048")),
        "{error}"
    );
    for cursor in ["x", "jobs:", "files:1"] {
        assert_eq!(client.error("resources/list", &json!({"cursor": cursor}))["code"], -32_602, "{cursor}");
    }
}
