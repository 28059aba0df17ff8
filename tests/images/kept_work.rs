//! Images of work that waits: lines of batches, schedules and items of conversations.

use super::{
    CHAT, GIF, RESPONSES, chat, config, delete, id_of, images_seen, job_ids, ok, response, seen, stored,
    upload, url,
};
use crate::support::upstream::{Act, Answer, Upstream};
use crate::support::{Server, wait_until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[test]
fn images_of_batch_lines_reach_the_provider_and_go_with_the_jobs() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let mut server = Server::start_with(&config(&upstream));
    let image = json!({"type": "input_image", "image_url": url()});
    let file = json!({"name": "a.gif", "extension": "gif", "content": STANDARD.encode(GIF)});
    let job = json!({"input": [{"role": "user", "content": "look", "attachments": [file]}]});
    let lines = [
        json!({"custom_id": "a", "method": "POST", "url": CHAT, "body": chat("eyes")}),
        json!({"custom_id": "b", "method": "POST", "url": RESPONSES, "body": response(&image)}),
        json!({"custom_id": "c", "body": job}),
    ];
    let reply = upload(&server, &lines.map(|line| line.to_string()).join("\n"));
    assert_eq!(reply.status, 202, "{}", reply.body);
    let batch = format!("/v1/batches/{}", id_of(&reply.json()));
    let ended = server.get(&format!("{batch}?wait=60")).json();
    assert_eq!(ended["request_counts"]["completed"], 3, "{ended}");
    assert_eq!((images_seen(&upstream), stored(&server)), (vec![1, 1, 1], vec![GIF.to_vec()]));
    delete(&server, &batch);
    server = server.crash_and_restart(&config(&upstream));
    assert_eq!(stored(&server), [GIF], "the jobs have it");
    for job in job_ids(&server) {
        delete(&server, &format!("/v1/jobs/{job}"));
    }
    let server = server.crash_and_restart(&config(&upstream));
    wait_until("the image is gone", || stored(&server).is_empty());
}

#[test]
fn p1_images_of_lines_that_wait_survive_a_kill_and_those_of_a_cancelled_batch_go_with_it() {
    let upstream = Upstream::start(|_, number| match number {
        0 => Answer::stream(vec![Act::Hang]),
        _ => Answer::text("a cat"),
    });
    let config = config(&upstream);
    let mut server = Server::start_with(&config);
    let plain = json!({"model": "eyes", "messages": [{"role": "user", "content": "x"}]});
    let line = |id: &str, body: &Value| json!({"custom_id": id, "url": CHAT, "body": body}).to_string();
    let lines = [line("a", &plain), line("b", &chat("eyes"))].join("\n");
    let path = "/v1/batches?concurrency=1";
    let send = |server: &Server| {
        let reply = server.request(("POST", path), &[("content-type", "application/jsonl")], &lines);
        assert_eq!(reply.status, 202, "{}", reply.body);
        format!("/v1/batches/{}", id_of(&reply.json()))
    };
    let batch = send(&server);
    wait_until("the model is called", || !upstream.requests().is_empty());
    server = server.crash_and_restart(&config);
    let ended = server.get(&format!("{batch}?wait=60")).json();
    assert_eq!(ended["request_counts"]["completed"], 2, "{ended}");
    assert_eq!(images_seen(&upstream).last(), Some(&1));
    delete(&server, &batch);
    for job in job_ids(&server) {
        delete(&server, &format!("/v1/jobs/{job}"));
    }
    let server = server.crash_and_restart(&config);
    wait_until("the image is gone", || stored(&server).is_empty());
}

#[test]
fn a_refused_batch_leaves_no_image_and_names_the_line_of_a_model_that_sees_none() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let mut server = Server::start_with(&config(&upstream));
    let line =
        |id: &str, model: &str| json!({"custom_id": id, "method": "POST", "url": CHAT, "body": chat(model)});
    let lines = [line("a", "eyes"), line("b", "blind")].map(|line| line.to_string()).join("\n");
    let reply = upload(&server, &lines);
    let error = reply.json()["error"].clone();
    let message = error["message"].as_str().expect("a text").to_owned();
    assert_eq!((reply.status, &error["param"]), (400, &json!("line 2")), "{error}");
    assert!(message.contains("line 2") && message.contains("blind"), "{message}");
    let form = format!(
        "--c\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--c\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{lines}\r\n--c--\r\n"
    );
    let kind = ("content-type", "multipart/form-data; boundary=c");
    let file = id_of(&ok(&server.request(("POST", "/v1/files"), &[kind], &form)));
    let order = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
    let batch = ok(&server.post("/v1/batches", &order));
    assert_eq!(batch["status"], "failed", "{batch}");
    let fault = &batch["errors"]["data"][0];
    assert_eq!((&fault["line"], &fault["param"]), (&json!(2), &json!("model")), "{batch}");
    delete(&server, &format!("/v1/files/{file}"));
    server = server.crash_and_restart(&config(&upstream));
    wait_until("no image is left", || stored(&server).is_empty());
}

#[test]
fn a_batch_of_a_file_may_have_images() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let server = Server::start_with(&config(&upstream));
    let line = |id: &str| json!({"custom_id": id, "method": "POST", "url": CHAT, "body": chat("eyes")});
    let lines = [line("a"), line("b")].map(|line| line.to_string()).join("\n");
    let form = format!(
        "--c\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--c\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{lines}\r\n--c--\r\n"
    );
    let kind = ("content-type", "multipart/form-data; boundary=c");
    let file = id_of(&ok(&server.request(("POST", "/v1/files"), &[kind], &form)));
    let order = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
    let batch = ok(&server.post("/v1/batches", &order));
    let ended = server.get(&format!("/v1/batches/{}?wait=60", id_of(&batch))).json();
    assert_eq!(ended["request_counts"]["completed"], 2, "{ended}");
    assert_eq!(images_seen(&upstream), [1, 1]);
}

#[test]
fn an_image_of_a_schedule_is_stored_once_and_goes_with_it_and_its_jobs() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let mut server = Server::start_with(&config(&upstream));
    let data = STANDARD.encode(GIF);
    let files = json!([
        {"name": "a.txt", "content": "some text"},
        {"name": "a.gif", "extension": "gif", "content": data},
    ]);
    let job = json!({"input": [{"role": "user", "content": "look", "attachments": files}]});
    let reply = server.post("/v1/schedules", &json!({"every_s": 1, "job": job}));
    assert_eq!(reply.status, 201, "{}", reply.body);
    let path = format!("/v1/schedules/{}", id_of(&reply.json()));
    wait_until("a job has ended", || upstream.requests().len() > 1);
    assert!(images_seen(&upstream).iter().all(|count| *count == 1));
    let shown = server.get(&path).json()["job"]["input"][0]["attachments"].clone();
    assert_eq!(shown[0], files[0]);
    assert_eq!(shown[1], json!({"name": "a.gif", "extension": "gif", "content": url()}));
    let store = server.store_bytes();
    assert!(!store.windows(data.len()).any(|window| window == data.as_bytes()), "the store has no base64");
    server = server.crash_and_restart(&config(&upstream));
    assert_eq!(stored(&server), [GIF], "the schedule has it");
    delete(&server, &path);
    wait_until("all jobs have ended and are deleted", || {
        let jobs = job_ids(&server);
        for job in &jobs {
            drop(server.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null));
        }
        jobs.is_empty()
    });
    server = server.crash_and_restart(&config(&upstream));
    wait_until("the image is gone", || stored(&server).is_empty());
    let blind = json!({"model": "blind", "input": job["input"]});
    let refused = server.post("/v1/schedules", &json!({"every_s": 60, "job": blind}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("job.model")));
}

#[test]
fn images_of_added_items_are_shown_read_and_go_with_their_item() {
    let upstream = Upstream::start(|_, _| Answer::text("a cat"));
    let mut server = Server::start_with(&config(&upstream));
    let items = response(&json!({"type": "input_image", "image_url": url()}))["input"].clone();
    let created = ok(&server.post("/v1/conversations", &json!({"items": items})));
    let path = format!("/v1/conversations/{}/items", id_of(&created));
    let other: &[u8] = b"GIF89a, another picture";
    let other_url = format!("data:image/gif;base64,{}", STANDARD.encode(other));
    let more = json!([
        {"role": "user", "content": [{"type": "input_image", "image_url": other_url}]},
        {"role": "user", "content": [{"type": "input_text", "text": "text"}]},
    ]);
    let added = ok(&server.post(&path, &json!({"items": more})));
    assert_eq!(added["data"][0]["content"][0]["image_url"], json!(other_url), "{added}");
    ok(&server.post(RESPONSES, &json!({"model": "eyes", "conversation": created["id"], "input": "go"})));
    assert_eq!(upstream.requests()[0]["messages"][0]["content"], seen());
    assert_eq!(images_seen(&upstream), [2]);
    server = server.crash_and_restart(&config(&upstream));
    let shown = ok(&server.get(&format!("{path}?order=asc")));
    assert_eq!(shown["data"][0]["content"][1]["image_url"], json!(url()), "{shown}");
    assert_eq!(stored(&server).len(), 2);
    delete(&server, &format!("{path}/{}", id_of(&added["data"][1])));
    server = server.crash_and_restart(&config(&upstream));
    assert_eq!(stored(&server).len(), 2, "the item with the image is there");
    delete(&server, &format!("{path}/{}", id_of(&added["data"][0])));
    server = server.crash_and_restart(&config(&upstream));
    wait_until("the other image is gone", || stored(&server) == [GIF]);
    delete(&server, &format!("/v1/conversations/{}", id_of(&created)));
    server = server.crash_and_restart(&config(&upstream));
    wait_until("both are gone", || stored(&server).is_empty());
}

/// A number of kilobytes that the kernel tells of the server.
fn kilobytes(server: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = status.lines().find(|line| line.starts_with(field)).expect("a field");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn p8_an_upload_of_many_images_stays_out_of_memory() {
    let upstream = Upstream::start(|_, _| Answer::stream(vec![Act::Hang]));
    let server = Server::start_with(&config(&upstream));
    let line = |number: u32| {
        let image = [GIF, &number.to_be_bytes(), &vec![b'x'; 1_000_000]].concat();
        let url = format!("data:image/gif;base64,{}", STANDARD.encode(image));
        let parts = json!([{"type": "image_url", "image_url": {"url": url}}]);
        let body = json!({"model": "eyes", "messages": [{"role": "user", "content": parts}]});
        json!({"custom_id": number.to_string(), "url": CHAT, "body": body}).to_string()
    };
    let lines: Vec<String> = (0..48).map(line).collect();
    let before = kilobytes(&server, "VmRSS");
    let kind = ("content-type", "application/jsonl");
    let reply = server.request(("POST", "/v1/batches?concurrency=1"), &[kind], &lines.join("\n"));
    assert_eq!(reply.status, 202, "{}", reply.body);
    let grown = kilobytes(&server, "VmHWM").saturating_sub(before);
    // Pages of the program that were not in memory before count, too.
    assert!(grown < 60_000, "{grown} kB more for 64 MB of lines and 48 MB of images");
    assert_eq!(stored(&server).len(), 48);
}
