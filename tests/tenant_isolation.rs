//! P7 as a matrix: every route of `/openapi.json`, called by one user with the ids of another user. The
//! answer must equal the answer for an unknown id.

use crate::support::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const CONFIG: &str = "auth_mode: multi\nmemory: {enabled: true}\nwebhooks: {allow_private_addresses: [127.0.0.1]}\nlimits: {user_requests_per_minute: 0}\n";
/// Appears in all of Ann's data; no answer to Bob may contain it.
const MARK: &str = "only-for-ann";

/// A logged-in user.
struct Client<'s> {
    server: &'s Server,
    token: String,
}

/// Status and body.
type StatusAndBody = (u16, String);

impl<'s> Client<'s> {
    fn register(server: &'s Server, name: &str) -> Self {
        let body = json!({"username": name, "password": format!("{name}-{name}-{name}")});
        let reply = server.register(&body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        Self { server, token: reply.json()["data"]["token"].as_str().expect("a token").to_owned() }
    }

    fn send(&self, method: &str, path: &str, (kind, body): (&str, &str)) -> StatusAndBody {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .allow_non_standard_methods(true)
            .build();
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind)
            .body(body.to_owned())
            .expect("a request");
        let agent: ureq::Agent = config.into();
        let mut reply = agent.run(request).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let text = reply.body_mut().read_to_string().unwrap_or_default();
        (reply.status().as_u16(), text)
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, text) = self.send(method, path, ("application/json", &body.to_string()));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn get(&self, path: &str) -> StatusAndBody {
        self.send("GET", path, ("text/plain", ""))
    }
}

/// Ann's ids, by the route prefix that they belong to.
struct OwnedIds {
    ids: BTreeMap<&'static str, String>,
    ask: String,
    answer: String,
}

fn create_everything(ann: &Client<'_>) -> OwnedIds {
    let new_project = json!({"name": format!("{MARK}-project"), "description": MARK});
    let project =
        ann.json("POST", "/api/projects", &new_project)["data"]["id"].as_str().expect("an id").to_owned();
    ann.json("PUT", &format!("/api/projects/{project}/files/secret.txt"), &json!({"content": MARK}));
    ann.json("PUT", "/v1/memory", &json!({"content": MARK}));
    ann.json("PUT", &format!("/v1/memory?project_id={project}"), &json!({"content": MARK}));
    let conversation = ann.json("POST", "/api/conversations", &json!({"title": MARK, "project_id": project}));
    let conversation = conversation["data"]["id"].as_str().expect("an id").to_owned();
    let place = format!("/api/conversations/{conversation}/messages");
    let (status, stream) = ann.send("POST", &place, ("application/json", &json!({"text": MARK}).to_string()));
    assert!(status == 200 && stream.contains("event: done"), "{status} {stream}");
    let messages: Value = serde_json::from_str(&ann.get(&place).1).expect("messages");
    let id = |at: usize| messages["data"]["items"][at]["id"].as_str().expect("an id").to_owned();
    let (ask, answer) = (id(0), id(1));
    let hook = "http://127.0.0.1:9/hook";
    let job =
        json!({"input": MARK, "webhook_url": hook, "metadata": {"note": MARK}, "conversation_id": "chat"});
    let job = ann.json("POST", "/v1/jobs?wait=30", &job)["id"].as_str().expect("an id").to_owned();
    let response = ann.json("POST", "/v1/responses", &json!({"model": "demo", "input": MARK}));
    let response = response["id"].as_str().expect("an id").to_owned();
    let chat = json!({"model": "demo", "messages": [{"role": "user", "content": MARK}], "store": true});
    let completion =
        ann.json("POST", "/v1/chat/completions", &chat)["id"].as_str().expect("an id").to_owned();
    let item = json!({"items": [{"role": "user", "content": MARK}], "metadata": {"note": MARK}});
    let shared = ann.json("POST", "/v1/conversations", &item)["id"].as_str().expect("an id").to_owned();
    let line = json!({"custom_id": MARK, "body": {"input": MARK}}).to_string();
    let (status, batch) = ann.send("POST", "/v1/batches", ("application/jsonl", &line));
    assert_eq!(status, 202, "{batch}");
    let batch: Value = serde_json::from_str(&batch).expect("a batch");
    let (kind, form) = body("POST", "/v1/files");
    let (status, file) = ann.send("POST", "/v1/files", (kind, &form.replace("bobs", MARK)));
    assert_eq!(status, 200, "{file}");
    let file: Value = serde_json::from_str(&file).expect("a file");
    let schedule = json!({"name": MARK, "every_s": 3_600, "job": {"input": MARK}});
    let schedule = ann.json("POST", "/v1/schedules", &schedule)["id"].as_str().expect("an id").to_owned();
    let token = ann.json("POST", "/api/tokens", &json!({"name": MARK}))["data"].clone();
    let token = token["id"].as_str().or(token["token"]["id"].as_str()).expect("an id").to_owned();
    let profile: Value = serde_json::from_str(&ann.get("/api/auth/profile").1).expect("a profile");
    let ids = [
        ("/v1/jobs", job),
        ("/v1/responses", response),
        ("/v1/conversations", shared),
        ("/v1/chat/completions", completion),
        ("/v1/batches", batch["id"].as_str().expect("an id").to_owned()),
        ("/v1/files", file["id"].as_str().expect("an id").to_owned()),
        ("/v1/schedules", schedule),
        ("/v1/webhooks", delivery(ann)),
        ("/api/conversations", conversation),
        ("/api/projects", project),
        ("/api/tokens", token),
        ("/api/users", profile["data"]["id"].to_string()),
    ];
    OwnedIds { ids: ids.into_iter().collect(), ask, answer }
}

fn delivery(ann: &Client<'_>) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let list: Value = serde_json::from_str(&ann.get("/v1/webhooks").1).expect("a list");
        if let Some(id) = list["data"][0]["id"].as_str() {
            return id.to_owned();
        }
        assert!(Instant::now() < deadline, "no delivery: {list}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An id of the same form that no user has.
fn unknown_id(id: &str) -> String {
    if id.chars().all(|c| c.is_ascii_digit()) {
        return "4000000".to_owned();
    }
    let (head, tail) = id.split_at(id.len() - 4);
    let other = if tail == "0123" { "3210" } else { "0123" };
    format!("{head}{other}")
}

/// A body that the route accepts.
fn body(method: &str, path: &str) -> (&'static str, String) {
    let json = |value: Value| ("application/json", value.to_string());
    if method == "GET" || method == "DELETE" {
        return ("text/plain", String::new());
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    match last {
        "upload" => {
            let part = "--b\r\ncontent-disposition: form-data; name=\"files\"; filename=\"top/a.txt\"\r\n\r\nx\r\n--b--\r\n";
            ("multipart/form-data; boundary=b", part.to_owned())
        }
        "files" => {
            let field = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n";
            let file = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"bobs\"\r\n\r\nbobs\r\n--b--\r\n";
            ("multipart/form-data; boundary=b", format!("{field}{file}"))
        }
        "messages" => json(json!({"text": "mine now"})),
        "directories" => json(json!({"path": "mine"})),
        "search" => json(json!({"query": "only"})),
        "{path}" if method == "PUT" => json(json!({"content": "mine now"})),
        "{path}" => json(json!({"new_path": "mine.txt"})),
        "{id}" if path.contains("projects") => json(json!({"description": "mine now"})),
        "{id}" if path.contains("schedules") => json(json!({"paused": true})),
        "{id}" if path.contains("users") => json(json!({"role": "admin"})),
        "{id}" if path.starts_with("/v1/conversations") || path.starts_with("/v1/chat") => {
            json(json!({"metadata": {"note": "mine now"}}))
        }
        "items" => json(json!({"items": [{"role": "user", "content": "mine now"}]})),
        "{id}" => json(json!({"title": "mine now"})),
        _ => json(json!({})),
    }
}

/// The path with these ids filled in.
fn filled(path: &str, id: &str, message: &str) -> String {
    path.replace("{id}", id)
        .replace("{mid}", message)
        .replace("{token}", message)
        .replace("{item}", message)
        .replace("{n}", "0")
        .replace("{path}", "secret.txt")
}

fn routes(server: &Server) -> Vec<(String, String)> {
    let document = server.get("/openapi.json").json();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            if !operation["security"].is_array() {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    assert!(routes.len() > 50, "{routes:?}");
    routes
}

#[test]
fn p7_every_route_treats_ids_of_other_users_as_unknown() {
    let server = Server::start_with(CONFIG);
    let root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let mut anns = create_everything(&ann);
    let invite = root.json("POST", "/api/invites", &json!({}))["data"]["id"].as_str().map(str::to_owned);
    anns.ids.insert("/api/invites", invite.expect("an id"));
    let bobs =
        bob.json("POST", "/api/conversations", &json!({}))["data"]["id"].as_str().expect("an id").to_owned();
    let before: Vec<StatusAndBody> = views(&ann, &anns);
    let mut tried = 0;
    for (method, path) in routes(&server) {
        let Some((_, id)) = anns.ids.iter().find(|(place, _)| path.starts_with(&format!("{place}/{{")))
        else {
            continue;
        };
        for message in [&anns.ask, &anns.answer] {
            let (kind, body) = body(&method, &path);
            let foreign = bob.send(&method, &filled(&path, id, message), (kind, &body));
            let missing = bob.send(&method, &filled(&path, &unknown_id(id), message), (kind, &body));
            assert_eq!(
                foreign, missing,
                "{method} {path}: the answers for a foreign and an unknown id differ"
            );
            let is_for_administrators = path.starts_with("/api/users") || path.starts_with("/api/invites");
            let expected = if is_for_administrators { 403 } else { 404 };
            assert_eq!(foreign.0, expected, "{method} {path}: {}", foreign.1);
            if path.contains("{mid}") {
                let inside = bob.send(&method, &filled(&path, &bobs, message), (kind, &body));
                let unknown = bob.send(&method, &filled(&path, &bobs, &unknown_id(message)), (kind, &body));
                assert_eq!(inside, unknown, "{method} {path}: Ann's message inside Bob's conversation");
                assert!(inside.0 == 404 || inside.0 == 400, "{method} {path}: {}", inside.1);
            }
            tried += 1;
            if !path.contains("{mid}") {
                break;
            }
        }
    }
    assert!(tried >= 30, "only {tried} routes were tried");
    assert_eq!(views(&ann, &anns), before, "Ann's data has changed");
}

/// Ann's data as she sees it.
fn views(ann: &Client<'_>, anns: &OwnedIds) -> Vec<StatusAndBody> {
    let id = |place: &str| anns.ids[place].clone();
    let paths = [
        format!("/v1/jobs/{}", id("/v1/jobs")),
        format!("/v1/responses/{}", id("/v1/responses")),
        format!("/v1/conversations/{}", id("/v1/conversations")),
        format!("/v1/chat/completions/{}", id("/v1/chat/completions")),
        format!("/v1/chat/completions/{}/messages", id("/v1/chat/completions")),
        format!("/v1/conversations/{}/items", id("/v1/conversations")),
        format!("/v1/files/{}", id("/v1/files")),
        format!("/v1/files/{}/content", id("/v1/files")),
        format!("/v1/schedules/{}", id("/v1/schedules")),
        format!("/api/conversations/{}", id("/api/conversations")),
        format!("/api/conversations/{}/messages", id("/api/conversations")),
        format!("/api/projects/{}", id("/api/projects")),
        format!("/api/projects/{}/files/secret.txt", id("/api/projects")),
        "/v1/memory".to_owned(),
        format!("/v1/memory?project_id={}", id("/api/projects")),
        "/api/tokens".to_owned(),
        "/api/auth/profile".to_owned(),
    ];
    let answers: Vec<StatusAndBody> = paths.iter().map(|path| ann.get(path)).collect();
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    answers
}

#[test]
fn p7_lists_searches_and_totals_show_nothing_of_other_users() {
    let server = Server::start_with(CONFIG);
    let root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let anns = create_everything(&ann);
    for (method, path) in routes(&server) {
        if method != "GET" || path.contains('{') || ["/v1/backup", "/v1/responses"].contains(&&*path) {
            continue;
        }
        let route = if path.ends_with("/tokens") && path.contains("stats") {
            format!("{path}?period=monthly")
        } else {
            path
        };
        let (status, text) = bob.get(&route);
        assert!(status == 200 || status == 403, "{route}: {status} {text}");
        assert!(!text.contains(MARK), "{route} shows data of Ann: {text}");
        for id in anns.ids.values().filter(|id| id.len() > 8) {
            assert!(!text.contains(id.as_str()), "{route} shows {id}");
        }
    }
    let searched = |person: &Client<'_>| person.get(&format!("/api/conversations?search={MARK}")).1;
    assert!(searched(&ann).contains(&anns.ids["/api/conversations"]) && !searched(&bob).contains(MARK));
    let spent = bob.get("/v1/usage").1;
    assert!(spent.contains("\"data\":[]"), "Bob has no usage: {spent}");
    let (conversations, users) = ("conversation", "user");
    for (person, group, sees_ann) in [
        (&ann, conversations, true),
        (&root, conversations, false),
        (&bob, conversations, false),
        (&ann, users, true),
        (&root, users, true),
        (&bob, users, false),
    ] {
        let (status, text) = person.get(&format!("/v1/usage?group_by={group}"));
        let mark = if group == users { "\"username\":\"ann\"" } else { MARK };
        assert_eq!((status, text.contains(mark)), (200, sees_ann), "{group}: {text}");
    }
    for (name, place) in
        [("batch_id", "/v1/batches"), ("schedule_id", "/v1/schedules"), ("parent", "/v1/jobs")]
    {
        let (status, text) = bob.get(&format!("/v1/jobs?{name}={}", anns.ids[place]));
        assert!(status == 200 && text.contains("\"data\":[]"), "{name}: {status} {text}");
    }
    let other = ann.json("GET", "/api/auth/profile", &json!({}))["data"]["id"].to_string();
    for id in [other.as_str(), "4000000", "all"] {
        let (status, _) = bob.get(&format!("/api/stats/tokens?period=daily&user_id={id}"));
        assert_eq!(status, 403, "statistics of {id}");
    }
}

#[test]
fn p7_projects_conversation_names_and_keys_are_separate_for_each_user() {
    let server = Server::start_with(CONFIG);
    let _root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let anns = create_everything(&ann);
    let project = &anns.ids["/api/projects"];
    let unknown = unknown_id(project);
    // A dry run says in its faults what an upload answers with.
    let checked = |(status, text): StatusAndBody| {
        assert!(status == 200 && text.contains("\"valid\":0"), "{status} {text}");
        (404, text)
    };
    let use_project = |project: &str| {
        let job = json!({"input": "x", "project_id": project});
        let line = json!({"custom_id": "a", "body": job});
        let mine = json!({"project_id": project});
        let text = json!({"text": "x", "project_id": project});
        let own = bob.json("POST", "/api/conversations", &json!({}))["data"]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let send = |path: &str, body: &Value| bob.send("POST", path, ("application/json", &body.to_string()));
        [
            bob.get(&format!("/v1/memory?project_id={project}")),
            bob.send(
                "PUT",
                &format!("/v1/memory?project_id={project}"),
                ("application/json", &json!({"content": "mine now"}).to_string()),
            ),
            send("/v1/jobs", &job),
            bob.send("POST", "/v1/batches", ("application/jsonl", &line.to_string())),
            checked(bob.send("POST", "/v1/batches?dry_run=true", ("application/jsonl", &line.to_string()))),
            send("/v1/schedules", &json!({"every_s": 60, "job": job})),
            send("/api/conversations", &mine),
            bob.send("PATCH", &format!("/api/conversations/{own}"), ("application/json", &mine.to_string())),
            send(&format!("/api/conversations/{own}/messages"), &text),
        ]
    };
    let (foreign, missing) = (use_project(project), use_project(&unknown));
    assert_eq!(foreign, missing);
    assert!(foreign.iter().all(|(status, _)| *status == 404 || *status == 400), "{foreign:?}");

    // Each user has their own conversation names and idempotency keys.
    let history = bob.json("POST", "/v1/jobs?wait=30", &json!({"input": "hello", "conversation_id": "chat"}));
    assert!(!history.to_string().contains(MARK), "{history}");
    let submit_with_key = |person: &Client<'_>, input: &str| {
        let agent = ureq::agent();
        let reply = agent
            .post(format!("{}/v1/jobs?wait=30", server.url))
            .header("authorization", format!("Bearer {}", person.token))
            .header("idempotency-key", "same")
            .content_type("application/json")
            .send(json!({"input": input}).to_string());
        let reply = reply.expect("a reply");
        assert!(
            reply.headers().get("idempotency-replayed").is_none(),
            "the key of another user has no effect"
        );
    };
    submit_with_key(&ann, "one");
    submit_with_key(&bob, "two");
}

#[test]
fn p7_an_image_cannot_be_taken_from_a_file_of_another_user() {
    let server = Server::start_with(CONFIG);
    let _root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let (kind, form) = body("POST", "/v1/files");
    let form = form.replace("\r\n\r\nbobs\r\n", "\r\n\r\nGIF89a image\r\n");
    let file: Value = serde_json::from_str(&ann.send("POST", "/v1/files", (kind, &form)).1).expect("a file");
    let file = file["id"].as_str().expect("an id");
    let show = |person: &Client<'_>, file: &str| {
        let parts = json!([{"type": "input_image", "file_id": file}]);
        let order = json!({"model": "demo", "input": [{"role": "user", "content": parts}]}).to_string();
        person.send("POST", "/v1/responses", ("application/json", &order)).1
    };
    let unknown = unknown_id(file);
    assert_eq!(show(&bob, file).replace(file, ""), show(&bob, &unknown).replace(&unknown, ""));
    assert!(show(&bob, file).contains("there is no file"));
    assert!(!show(&ann, file).contains("there is no file"));
}

#[test]
fn p7_an_image_is_shown_to_the_user_of_its_job_alone() {
    let config =
        format!("{CONFIG}default_model: eyes\nmodels: [{{id: eyes, provider: demo, vision: true}}]\n");
    let server = Server::start_with(&config);
    let root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let file = json!({"name": "a", "content": "data:image/gif;base64,R0lGODlh"});
    let order = json!({"input": [{"role": "user", "content": "look", "attachments": [file]}]});
    let job = ann.json("POST", "/v1/jobs?wait=30", &order)["id"].as_str().expect("an id").to_owned();
    assert_eq!(ann.get(&format!("/v1/jobs/{job}/images/0")), (200, "GIF89a".to_owned()));
    for other in [&bob, &root] {
        for number in ["0", "1", "x"] {
            let (foreign, missing) = (
                other.get(&format!("/v1/jobs/{job}/images/{number}")),
                other.get(&format!("/v1/jobs/{}/images/{number}", unknown_id(&job))),
            );
            assert_eq!((foreign.0, &foreign), (404, &missing), "{number}");
        }
    }
}

#[test]
fn p7_a_batch_cannot_be_made_of_a_file_of_another_user() {
    let server = Server::start_with(CONFIG);
    let _root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let line = json!({"custom_id": MARK, "url": "/v1/jobs", "body": {"input": MARK}}).to_string();
    let (kind, form) = body("POST", "/v1/files");
    let form = form.replace("user_data", "batch").replace("\r\n\r\nbobs\r\n", &format!("\r\n\r\n{line}\r\n"));
    let (status, file) = ann.send("POST", "/v1/files", (kind, &form));
    assert_eq!(status, 200, "{file}");
    let file: Value = serde_json::from_str(&file).expect("a file");
    let file = file["id"].as_str().expect("an id");
    let make = |person: &Client<'_>, file: &str, query: &str| {
        let order = json!({"input_file_id": file, "endpoint": "/v1/jobs", "completion_window": "24h"});
        person.send("POST", &format!("/v1/batches{query}"), ("application/json", &order.to_string()))
    };
    for dry_run in ["", "?dry_run=true"] {
        let foreign = make(&bob, file, dry_run);
        assert_eq!((foreign.0, &foreign), (404, &make(&bob, &unknown_id(file), dry_run)));
    }
    let batch: Value = serde_json::from_str(&make(&ann, file, "").1).expect("a batch");
    let ended = ann.get(&format!("/v1/batches/{}?wait=30", batch["id"].as_str().expect("an id"))).1;
    let ended: Value = serde_json::from_str(&ended).expect("a batch");
    let results = ended["output_file_id"].as_str().expect("a file");
    for path in [format!("/v1/files/{results}"), format!("/v1/files/{results}/content")] {
        assert_eq!((ann.get(&path).0, bob.get(&path).0), (200, 404), "{path}");
    }
    assert!(!bob.get("/v1/files").1.contains(results));
}

#[test]
fn p7_items_and_responses_stay_in_the_conversations_of_their_user() {
    let server = Server::start_with(CONFIG);
    let _root = Client::register(&server, "root");
    let (ann, bob) = (Client::register(&server, "ann"), Client::register(&server, "bob"));
    let everything = create_everything(&ann).ids;
    let anns = everything["/v1/conversations"].clone();
    let item: Value =
        serde_json::from_str(&ann.get(&format!("/v1/conversations/{anns}/items")).1).expect("a list");
    let item = item["data"][0]["id"].as_str().expect("an id");
    let bobs = bob.json("POST", "/v1/conversations", &json!({}))["id"].as_str().expect("an id").to_owned();
    for method in ["GET", "DELETE"] {
        let path = |item: &str| format!("/v1/conversations/{bobs}/items/{item}");
        let (foreign, missing) = (
            bob.send(method, &path(item), ("text/plain", "")),
            bob.send(method, &path("msg_x_0_add"), ("text/plain", "")),
        );
        assert_eq!((foreign.0, &foreign), (404, &missing), "{method}");
    }
    let respond = |conversation: &str| {
        let body = json!({"model": "demo", "input": "x", "conversation": conversation});
        bob.send("POST", "/v1/responses", ("application/json", &body.to_string()))
    };
    assert_eq!((respond(&anns).0, respond(&anns)), (404, respond(&unknown_id(&anns))));
    let decide = |request: &str| {
        let decision =
            json!({"type": "mcp_approval_response", "approval_request_id": request, "approve": true});
        let body = json!({"model": "demo", "input": [decision]}).to_string();
        bob.send("POST", "/v1/responses", ("application/json", &body))
    };
    let anns_job = everything["/v1/responses"].replace("resp_job_", "mcpr_");
    let (foreign, missing) =
        (decide(&format!("{anns_job}_0")), decide(&format!("{}_0", unknown_id(&anns_job))));
    assert_eq!((foreign.0, missing.0), (400, 400), "{foreign:?}, {missing:?}");
    let calls = json!({"items": [{"type": "item_reference", "id": item}]});
    let path = format!("/v1/conversations/{bobs}/items");
    assert_eq!(bob.send("POST", &path, ("application/json", &calls.to_string())).0, 400);
}
