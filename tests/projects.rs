//! Projects through the real binary: settings, uploads, files, search, jobs in projects, and paths outside.

use crate::support::Server;
use crate::support::directories::user_directory;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BOUNDARY: &str = "------------------------nanoclaw";

/// Status and JSON of an answer.
type Answer = (u16, Value);

fn answer(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let response = result.expect("an answer");
    let status = response.status().as_u16();
    let text = response.into_body().read_to_string().expect("a body");
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().new_agent()
}

fn get(server: &Server, path: &str) -> Answer {
    answer(agent().get(format!("{}{path}", server.url)).call())
}

fn delete(server: &Server, path: &str) -> Answer {
    answer(agent().delete(format!("{}{path}", server.url)).call())
}

fn send(server: &Server, method: &str, path: &str, body: &Value) -> Answer {
    let url = format!("{}{path}", server.url);
    let request = match method {
        "POST" => agent().post(url),
        "PUT" => agent().put(url),
        _ => agent().patch(url),
    };
    answer(request.content_type("application/json").send(body.to_string()))
}

/// Uploads parts: field, file name, data.
fn upload(server: &Server, path: &str, parts: &[(&str, Option<&str>, &str)]) -> Answer {
    let mut body = String::new();
    for (field, file, data) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        body = format!(
            "{body}--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"{file}\r\n\r\n{data}\r\n"
        );
    }
    body = format!("{body}--{BOUNDARY}--\r\n");
    let request = agent().post(format!("{}{path}", server.url));
    answer(request.content_type(format!("multipart/form-data; boundary={BOUNDARY}")).send(body))
}

/// The data of a successful answer.
fn data((status, body): Answer) -> Value {
    assert_eq!((status, &body["code"]), (200, &json!(0)), "{body}");
    body["data"].clone()
}

/// Creates a project; returns its route.
fn make(server: &Server, name: &str) -> String {
    let made = data(send(server, "POST", "/api/projects", &json!({"name": name})));
    format!("/api/projects/{}", made["id"].as_str().expect("an id"))
}

fn workspaces(server: &Server) -> PathBuf {
    server.dir.join("data/workspaces")
}

/// The entries of the user's directory, without hidden names.
fn directories(server: &Server) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(user_directory(&workspaces(server), 1)) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Waits until the user's directory has exactly these entries.
fn wait_for_directories(server: &Server, expected: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while directories(server) != expected {
        assert!(Instant::now() < deadline, "{:?}, not {expected:?}", directories(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_project_can_be_created_read_renamed_listed_and_deleted() {
    let server = Server::start();
    let made = data(send(&server, "POST", "/api/projects", &json!({"name": " app ", "description": "d"})));
    assert_eq!(
        (&made["name"], &made["path"], &made["conversation_count"]),
        (&json!("app"), &json!("user_1/app"), &json!(0))
    );
    let path = format!("/api/projects/{}", made["id"].as_str().expect("an id"));
    let (status, refused) = send(&server, "POST", "/api/projects", &json!({"name": "app"}));
    assert_eq!((status, &refused["message"]), (400, &json!("a project of this name exists already")));
    for bad in [json!({}), json!({"name": "../x"}), json!({"name": 5}), json!({"name": "x", "nmae": 1})] {
        let (status, refused) = send(&server, "POST", "/api/projects", &bad);
        assert_eq!((status, &refused["code"]), (400, &json!(400)), "{bad}: {refused}");
    }
    assert_eq!(directories(&server), ["app"], "a refused request creates no directory");
    let other = make(&server, "other");
    assert_eq!(send(&server, "PUT", &other, &json!({"name": "app"})).0, 400);
    let updated = data(send(&server, "PATCH", &path, &json!({"name": "renamed", "description": null})));
    assert_eq!((&updated["name"], &updated["description"]), (&json!("renamed"), &json!("d")));
    let shown = data(get(&server, &path));
    assert_eq!(shown["stats"], json!({"files": 0, "directories": 0, "total_size": 0}));
    let absolute = shown["absolute_path"].as_str().expect("the one user is an administrator");
    assert!(absolute.contains("/workspaces/user_1-") && absolute.ends_with("/app"), "{absolute}");
    let first = data(get(&server, "/api/projects?limit=1"));
    assert_eq!(
        (&first["items"][0]["name"], &first["total"]),
        (&json!("renamed"), &json!(2)),
        "the project that changed last comes first"
    );
    let next = format!("/api/projects?limit=1&cursor={}", first["next_cursor"].as_str().expect("a cursor"));
    let second = data(get(&server, &next));
    assert_eq!(
        (&second["items"][0]["name"], &second["has_more"], &second["next_cursor"]),
        (&json!("other"), &json!(false), &Value::Null)
    );
    for bad in ["limit=abc", "limit=-5", "limit=0", "cursor=x", "cursor=proj_00000000000000000000000000"] {
        assert_eq!(get(&server, &format!("/api/projects?{bad}")).0, 400, "{bad}");
    }
    assert_eq!(delete(&server, &path), (200, json!({"code": 0, "message": "deleted"})));
    assert_eq!(get(&server, &path).0, 404);
    wait_for_directories(&server, &["other"]);
    assert_eq!(data(get(&server, "/api/projects"))["total"], 1);
}

#[test]
fn p7_an_unknown_project_is_not_found_on_every_route() {
    let server = Server::start();
    for id in ["proj_00000000000000000000000000", "x", "..%2F..", "job_00000000000000000000000000"] {
        let path = format!("/api/projects/{id}");
        let mut answers = vec![get(&server, &path), delete(&server, &path)];
        for (method, below) in [
            ("PUT", ""),
            ("PATCH", ""),
            ("PUT", "/files/a"),
            ("PATCH", "/files/a"),
            ("POST", "/directories"),
            ("POST", "/search"),
        ] {
            answers.push(send(&server, method, &format!("{path}{below}"), &json!({"name": "n"})));
        }
        answers.extend(["/files", "/files/a"].map(|below| get(&server, &format!("{path}{below}"))));
        answers.push(delete(&server, &format!("{path}/files/a")));
        answers.push(upload(&server, &format!("{path}/upload"), &[("files", Some("a"), "x")]));
        for answer in answers {
            assert_eq!(answer, (404, json!({"code": 404, "message": "project not found"})), "{id}");
        }
    }
    let job = json!({"input": "x", "project_id": "proj_00000000000000000000000000"});
    let reply = server.post("/v1/jobs", &job);
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!("not_found")), "{}", reply.body);
    let schedule = server.post("/v1/schedules", &json!({"every_s": 60, "job": job}));
    assert_eq!(schedule.status, 404, "{}", schedule.body);
    let line = json!({"custom_id": "a", "body": job}).to_string();
    let batch = server.post_text("/v1/batches", &line);
    assert!(batch.status == 400 && batch.body.contains("there is no such project"), "{}", batch.body);
}

#[test]
fn an_uploaded_folder_becomes_a_project_in_any_order_of_parts() {
    let server = Server::start();
    let long = "0123456789abcdef".repeat(40_000);
    let files = [
        ("files", Some("site/index.html"), "<p>"),
        ("files[]", Some("site/css/a.css"), ""),
        ("files", Some("site\\js\\deep\\b.js"), long.as_str()),
    ];
    let named = data(upload(&server, "/api/projects/upload", &files));
    assert_eq!((&named["name"], &named["path"]), (&json!("site"), &json!("user_1/site")));
    assert_eq!(named["stats"], json!({"files": 3, "directories": 3, "size": 640_003}));
    let read = |project: &Value, path: &str| {
        let id = project["id"].as_str().expect("an id");
        data(get(&server, &format!("/api/projects/{id}/files/{path}")))["content"].clone()
    };
    assert_eq!((read(&named, "js/deep/b.js"), read(&named, "css/a.css")), (json!(long), json!("")));
    let fields_after: Vec<_> =
        files.into_iter().chain([("name", None, "late"), ("description", None, "d")]).collect();
    let fields_after = data(upload(&server, "/api/projects/upload", &fields_after));
    assert_eq!((&fields_after["name"], &fields_after["description"]), (&json!("late"), &json!("d")));
    let fields_before: Vec<_> = [("name", None, "early")].into_iter().chain(files).collect();
    assert_eq!(data(upload(&server, "/api/projects/upload", &fields_before))["path"], "user_1/early");
    assert_eq!(upload(&server, "/api/projects/upload", &files).0, 400, "the name is taken");
    wait_for_directories(&server, &["early", "site", "site_1"]);
    let upload_path = format!("/api/projects/{}/upload", named["id"].as_str().expect("an id"));
    let added = data(upload(
        &server,
        &upload_path,
        &[("files", Some("new/x.txt"), "x"), ("files", Some("y.txt"), "y")],
    ));
    assert_eq!(added["stats"]["files"], 5);
    let conflicting = [("files", Some("z.txt"), "z"), ("files", Some("t/index.html"), "other")];
    let (status, refused) = upload(&server, &upload_path, &conflicting);
    assert!(status == 400 && refused["message"].as_str().expect("words").contains("index.html"), "{refused}");
    assert_eq!(read(&named, "index.html"), "<p>", "an existing file is not replaced");
    let deadline = Instant::now() + Duration::from_secs(60);
    while user_directory(&workspaces(&server), 1).join("site/z.txt").exists() {
        assert!(Instant::now() < deadline, "files before the refused one were not removed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_refused_upload_leaves_nothing_behind() {
    let server = Server::start_with("limits: {upload_bytes: 100000, upload_files: 3}");
    let good = ("files", Some("top/good.txt"), "good");
    for bad in [
        "../evil",
        "top/../../evil",
        "/etc/evil",
        "top/..",
        "\\\\host\\evil",
        "C:\\evil",
        "top//evil",
        "top/a/../evil",
        "",
    ] {
        let (status, refused) = upload(&server, "/api/projects/upload", &[good, ("files", Some(bad), "x")]);
        assert_eq!(status, 400, "{bad}: {refused}");
        assert!(refused["message"].as_str().expect("words").contains("file name"), "{bad}: {refused}");
    }
    let large = "x".repeat(100_001);
    let five = [good, ("files", Some("t/1"), ""), ("files", Some("t/2"), ""), ("files", Some("t/3"), "")];
    for (parts, status) in [
        (&[good, ("files", Some("top/large"), large.as_str())][..], 413),
        (&five, 413),
        (&[good, good], 400),
        (&[("name", None, "only")], 400),
        (&[("files", Some("bare.txt"), "x")], 400),
        (&[good, ("name", None, "../x")], 400),
        (&[good, ("nmae", None, "x")], 400),
    ] {
        let (found, refused) = upload(&server, "/api/projects/upload", parts);
        assert_eq!(found, status, "{refused}");
    }
    let broken = agent().post(format!("{}/api/projects/upload", server.url));
    let broken = broken.content_type(format!("multipart/form-data; boundary={BOUNDARY}"));
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a/b\"\r\n\r\nhalf"
    );
    assert_eq!(answer(broken.send(head)).0, 400, "the upload is incomplete");
    let wrong_type =
        agent().post(format!("{}/api/projects/upload", server.url)).content_type("text/plain").send("x");
    assert_eq!(answer(wrong_type).0, 400);
    assert_eq!(data(get(&server, "/api/projects"))["total"], 0);
    wait_for_directories(&server, &[]);
    assert_eq!(
        data(upload(&server, "/api/projects/upload", &[good]))["path"],
        "user_1/top",
        "names are free again"
    );
}

#[test]
fn files_can_be_written_listed_read_moved_searched_and_deleted() {
    let server = Server::start();
    let project = make(&server, "app");
    let file = |path: &str| format!("{project}/files/{path}");
    let put = |path: &str, content: &str| send(&server, "PUT", &file(path), &json!({"content": content}));
    let written = data(put("src/main.rs", "fn main() {}\n// Größe\n"));
    assert_eq!(written, json!({"name": "main.rs", "path": "src/main.rs", "size": 24}));
    data(put("a%20b.txt", "needle"));
    let read = data(get(&server, &file("src/main.rs")));
    assert_eq!(
        read,
        json!({"name": "main.rs", "path": "src/main.rs", "size": 24, "extension": ".rs", "content": "fn main() {}\n// Größe\n"})
    );
    let made = data(send(&server, "POST", &format!("{project}/directories"), &json!({"path": "x/y"})));
    assert_eq!(made, json!({"path": "x/y"}));
    let listed = data(get(&server, &format!("{project}/files")));
    assert_eq!(
        (&listed["current_path"], &listed["total_files"], &listed["total_dirs"]),
        (&json!("/"), &json!(1), &json!(2))
    );
    assert_eq!(
        listed["files"][0],
        json!({"name": "a b.txt", "path": "a b.txt", "size": 6, "extension": ".txt"})
    );
    assert_eq!(listed["directories"][0], json!({"name": "src", "path": "src"}));
    assert_eq!(data(get(&server, &format!("{project}/files?path=src")))["files"][0]["path"], "src/main.rs");
    let moved = data(send(&server, "PATCH", &file("src/main.rs"), &json!({"new_path": "x/y/z.rs"})));
    assert_eq!(moved, json!({"name": "z.rs", "path": "x/y/z.rs"}));
    assert_eq!(
        send(&server, "PATCH", &file("a%20b.txt"), &json!({"new_path": "x/y/z.rs"})).0,
        400,
        "the target exists"
    );
    let search = |body: Value| send(&server, "POST", &format!("{project}/search"), &body);
    let found = data(search(json!({"query": "GRÖSSE"})));
    assert_eq!(found["total_matches"], 0);
    let found = data(search(json!({"query": "größe"})));
    assert_eq!(
        found["results"],
        json!([{"path": "x/y/z.rs", "matches": [{"line": 2, "content": "// Größe"}]}])
    );
    assert_eq!(data(search(json!({"query": "größe", "case_sensitive": true})))["total_matches"], 0);
    assert_eq!(data(search(json!({"query": "needle", "path": "x"})))["total_matches"], 0);
    for bad in
        [json!({}), json!({"query": ""}), json!({"query": "x", "max_results": 201}), json!({"query": 5})]
    {
        assert_eq!(search(bad.clone()).0, 400, "{bad}");
    }
    for root in ["/files/.", "/files/./.", "/files", "/files/%2E"] {
        assert_eq!(delete(&server, &format!("{project}{root}")).0, 400, "{root}");
    }
    assert_eq!(data(get(&server, &project))["stats"]["files"], 2);
    assert_eq!(delete(&server, &file("x")), (200, json!({"code": 0, "message": "deleted"})));
    assert_eq!(delete(&server, &file("x")).0, 404);
    assert_eq!(get(&server, &file("x/y/z.rs")).0, 404);
    assert_eq!(put("d", &"й".repeat(2_621_440)).0, 200, "5 MiB");
    let escaped = format!(r#"{{"content":"{}"}}"#, r"\u0439".repeat(2_621_440));
    let request = agent().put(format!("{}{}", server.url, file("d"))).content_type("application/json");
    assert_eq!(data(answer(request.send(escaped)))["size"], 5_242_880, "JSON escapes do not count");
    assert_eq!(put("e", &"x".repeat(5_242_881)).0, 400, "one byte over the limit");
    std::fs::write(user_directory(&workspaces(&server), 1).join("app/binary"), [0xff, 0]).expect("a file");
    assert_eq!(get(&server, &file("binary")).0, 400);
}

#[test]
fn p7_file_routes_cannot_leave_the_project() {
    let server = Server::start();
    let project = make(&server, "app");
    data(send(&server, "PUT", &format!("{project}/files/in.txt"), &json!({"content": "in"})));
    let outside = user_directory(&workspaces(&server), 1).join("secret");
    std::fs::write(&outside, "secret").expect("a file");
    let traversals = [
        "..%2Fsecret",
        "%2E%2E%2Fsecret",
        "a%2F..%2F..%2Fsecret",
        "%2Fetc%2Fpasswd",
        "..%2F..%2F..%2Fconfig.yml",
    ];
    for path in traversals {
        let file = format!("{project}/files/{path}");
        let content = json!({"content": "gone"});
        let answers = [
            get(&server, &file),
            get(&server, &format!("{project}/files?path={path}")),
            send(&server, "PUT", &file, &content),
            send(&server, "PATCH", &file, &json!({"new_path": "stolen"})),
            delete(&server, &file),
        ];
        for (status, body) in answers {
            assert!((400..500).contains(&status) && !body.to_string().contains("secret\""), "{path}: {body}");
        }
    }
    for path in ["../secret", "/etc/passwd", "a/../../secret"] {
        let answers = [
            send(&server, "PATCH", &format!("{project}/files/in.txt"), &json!({"new_path": path})),
            send(&server, "POST", &format!("{project}/directories"), &json!({"path": path})),
            send(&server, "POST", &format!("{project}/search"), &json!({"query": "s", "path": path})),
        ];
        for (status, body) in answers {
            assert!((400..500).contains(&status), "{path}: {body}");
        }
    }
    assert_eq!(std::fs::read_to_string(outside).expect("still there"), "secret");
}

#[test]
fn a_job_works_in_its_project_and_its_symlinks_are_not_followed() {
    let server = Server::start();
    let project = make(&server, "app");
    data(send(&server, "PUT", &format!("{project}/files/in.txt"), &json!({"content": "from the files"})));
    let id = project.rsplit('/').next().expect("an id");
    let script = "```bash\ncat in.txt; echo made > out.txt; ln -s /etc link; ln -s /etc/passwd passwd\n```";
    let job = server.submit(&json!({"input": script, "project_id": id}));
    let ended = server.wait(&job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let events = server.events(&job);
    assert!(events.iter().any(|event| event.data.to_string().contains("from the files")), "{events:?}");
    assert_eq!(data(get(&server, &format!("{project}/files/out.txt")))["content"], "made\n");
    for path in ["link/passwd", "passwd", "link"] {
        let (status, body) = get(&server, &format!("{project}/files/{path}"));
        assert!((400..500).contains(&status) && !body.to_string().contains("root:"), "{path}: {body}");
    }
    let (status, body) = get(&server, &format!("{project}/files?path=link"));
    assert!((400..500).contains(&status), "{body}");
    let (_, body) = send(&server, "PUT", &format!("{project}/files/passwd"), &json!({"content": "mine"}));
    assert!(!std::fs::read_to_string("/etc/passwd").expect("readable").contains("mine"), "{body}");
    assert_eq!(delete(&server, &project).0, 200);
    wait_for_directories(&server, &[]);
    assert!(std::path::Path::new("/etc/passwd").exists());
}

/// Starts an upload of the folder `half` and stops in the middle, once its directory exists.
fn start_half_upload(server: &Server) -> TcpStream {
    let host = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("a connection");
    let head = format!(
        "POST /api/projects/upload HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000000\r\n\
         Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n--{BOUNDARY}\r\n\
         Content-Disposition: form-data; name=\"files\"; filename=\"half/a\"\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sends");
    stream.write_all(&vec![b'x'; 800_000]).expect("sends");
    wait_for_directories(server, &["half", "kept"]);
    assert_eq!(data(get(server, "/api/projects"))["total"], 1, "an unfinished upload is not listed");
    stream
}

#[test]
fn an_upload_whose_client_disconnects_is_removed() {
    let server = Server::start();
    make(&server, "kept");
    drop(start_half_upload(&server));
    wait_for_directories(&server, &["kept"]);
}

#[test]
fn the_next_start_removes_unfinished_uploads_and_deleted_projects() {
    let server = Server::start();
    let project = make(&server, "app");
    make(&server, "kept");
    assert_eq!(delete(&server, &project).0, 200);
    wait_for_directories(&server, &["kept"]);
    let upload = start_half_upload(&server);
    let server = server.crash_and_restart("");
    wait_for_directories(&server, &["kept"]);
    assert_eq!(data(get(&server, "/api/projects"))["total"], 1);
    drop(upload);
}
