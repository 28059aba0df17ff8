//! `/api/conversations` as its front end uses it: settings, pages, tools and token statistics.

use crate::support::Server;
use serde_json::{Value, json};

use crate::support::chat::{create, echo, fails, messages, new, page, say, show};

#[test]
fn conversation_settings_can_be_read_changed_and_deleted() {
    let server = Server::start_against(&echo(), "");
    let made = create(&server, &json!({}));
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("conv_")), "{made}");
    let expected = json!({
        "id": made["id"], "title": "", "model": "scripted", "system_prompt": "", "temperature": 1.0,
        "max_tokens": 65_536, "thinking_enabled": false, "message_count": 0,
        "created_at": made["created_at"], "updated_at": made["updated_at"],
    });
    assert_eq!(made, expected, "null fields are left out");
    let path = format!("/api/conversations/{}", made["id"].as_str().expect("an id"));
    let change = json!({"title": "Étude", "system_prompt": "Be kind.", "temperature": 0.5, "max_tokens": 77,
        "thinking_enabled": true, "model": "demo", "project_id": null});
    let changed = server.ask("PATCH", &path, &change).json()["data"].clone();
    for field in ["title", "system_prompt", "temperature", "max_tokens", "thinking_enabled", "model"] {
        assert_eq!(changed[field], change[field], "{field}");
    }
    assert_eq!(page(&server, &path), changed);
    assert_eq!(
        server.ask("PATCH", &path, &Value::Null).json()["data"]["title"],
        "Étude",
        "an empty change keeps everything"
    );
    assert_eq!(server.ask("DELETE", &path, &Value::Null).json(), json!({"code": 0, "message": "deleted"}));
    for method in ["GET", "PATCH", "DELETE"] {
        fails(&server.ask(method, &path, &Value::Null), 404, "conversation not found");
    }
    fails(&server.get("/api/conversations/a%20b"), 404, "conversation not found");
}

#[test]
fn p8_invalid_fields_are_named_in_the_error() {
    let server = Server::start_against(&echo(), "");
    let id = new(&server);
    let path = format!("/api/conversations/{id}");
    for (body, expected_error) in [
        (json!({"title": 7}), "'title'"),
        (json!({"title": "x".repeat(256)}), "'title'"),
        (json!({"model": "gpt-9"}), "'gpt-9' is not configured"),
        (json!({"temperature": "hot"}), "'temperature'"),
        (json!({"temperature": 3}), "'temperature'"),
        (json!({"max_tokens": -5}), "'max_tokens'"),
        (json!({"thinking_enabled": "yes"}), "'thinking_enabled'"),
        (json!({"system_prompt": ["x"]}), "'system_prompt'"),
        (json!({"project_id": 4}), "'project_id'"),
        (json!({"colour": "red"}), "unknown field 'colour'"),
        (json!(["x"]), "must be a JSON object"),
    ] {
        fails(&server.ask("PATCH", &path, &body), 400, expected_error);
        fails(&server.post("/api/conversations", &body), 400, expected_error);
    }
    fails(&server.post("/api/conversations", &json!({"project_id": "nope"})), 404, "project not found");
    let messages = format!("{path}/messages");
    for (body, expected_error) in [
        (json!({}), "'text'"),
        (json!({"text": "  ", "attachments": []}), "'text'"),
        (json!({"text": 1}), "'text'"),
        (json!({"text": "x", "attachments": [{"name": "a"}]}), "'content'"),
        (json!({"text": "x", "tools_enabled": 1}), "'tools_enabled'"),
    ] {
        fails(&server.post(&messages, &body), 400, expected_error);
    }
    fails(&server.post(&messages, &json!({"text": "x", "project_id": "nope"})), 404, "project not found");
    for query in
        ["limit=abc", "limit=-5", "limit=0", "limit=101", "cursor=a%20b", "cursor=1.2.3", "cursor=nope"]
    {
        fails(
            &server.get(&format!("/api/conversations?{query}")),
            400,
            query.split('=').next().expect("a name"),
        );
    }
    for query in ["limit=x", "cursor=conv_1", "page=2"] {
        fails(&server.get(&format!("{messages}?{query}")), 400, query.split('=').next().expect("a name"));
    }
    fails(&server.get("/api/conversations/nope/messages"), 404, "conversation not found");
    assert!(messages_are_none(&server, &id), "no refused message was stored");
}

fn messages_are_none(server: &Server, id: &str) -> bool {
    messages(server, id).is_empty() && show(server, id)["message_count"] == 0
}

/// All items of a list, page by page; runs `between` after each page.
fn walk(server: &Server, path: &str, limit: usize, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = page(server, &format!("{path}?limit={limit}{cursor}"));
        let items = page["items"].as_array().expect("items");
        assert!(items.len() <= limit);
        all.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        assert_eq!(page["has_more"] == true, page["next_cursor"].is_string(), "{page}");
        between(pages);
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

#[test]
fn pages_stay_consistent_while_rows_are_added() {
    let server = Server::start_against(&echo(), "");
    let mut made: Vec<String> = (0..7).map(|_| new(&server)).collect();
    let added = std::cell::RefCell::new(Vec::new());
    let found = walk(&server, "/api/conversations", 3, |_| added.borrow_mut().push(new(&server)));
    made.reverse();
    assert_eq!(found, made, "newest first; conversations made meanwhile come before the first page");
    let all = walk(&server, "/api/conversations", 4, |_| {});
    assert_eq!(all.len(), 7 + added.borrow().len());
    let next_page = page(&server, &format!("/api/conversations?cursor={}", made[4]));
    let rest: Vec<_> =
        next_page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect();
    assert_eq!(rest, made[5..], "an id as cursor continues behind that conversation");
    let id = &made[6];
    for number in 0..4 {
        say(&server, id, &json!({"text": format!("number {number}")}));
    }
    assert_eq!(
        page(&server, "/api/conversations?limit=1")["items"][0]["id"],
        **id,
        "the conversation that changed last comes first"
    );
    let path = format!("/api/conversations/{id}/messages");
    let before: Vec<_> =
        messages(&server, id).iter().map(|m| m["id"].as_str().expect("an id").to_owned()).collect();
    let found = walk(&server, &path, 3, |page| {
        if page == 0 {
            say(&server, id, &json!({"text": "one more"}));
        }
    });
    let (old, fresh) = found.split_at(before.len());
    assert_eq!((old, fresh.len()), (before.as_slice(), 2), "oldest first, and added messages come last");
}

#[test]
fn a_removed_model_is_reported_and_the_conversation_can_switch_to_another() {
    let upstream = echo();
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start_in(dir.path(), &crate::support::against(&upstream, ""));
    let id = create(&server, &json!({"model": "demo"}))["id"].as_str().expect("an id").to_owned();
    assert!(server.terminate().success());
    let without =
        format!("default_model: scripted\nmodels:\n  - {{id: scripted, api_url: \"{}/v1\"}}\n", upstream.url);
    let server = Server::start_in(dir.path(), &without);
    let path = format!("/api/conversations/{id}");
    fails(
        &server.post(&format!("{path}/messages"), &json!({"text": "hi"})),
        400,
        "model 'demo' is not configured",
    );
    server.ask("PATCH", &path, &json!({"model": "scripted"}));
    assert_eq!(say(&server, &id, &json!({"text": "hi"})).last().expect("an end").name, "done");
}

#[test]
fn the_tool_list_uses_the_format_that_models_get() {
    let server = Server::start();
    let list = page(&server, "/api/tools");
    let tools = list["tools"].as_array().expect("tools");
    assert_eq!(list["total"], tools.len());
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert!(names.contains(&"calculator") && names.contains(&"execute_python"), "{names:?}");
    for tool in tools {
        assert_eq!(
            (&tool["type"], &tool["function"]["parameters"]["type"]),
            (&json!("function"), &json!("object"))
        );
        assert!(tool["function"]["description"].is_string());
    }
}

#[test]
fn token_statistics_cover_every_hour_and_day_by_model() {
    let server = Server::start_against(&echo(), "");
    let empty = page(&server, "/api/stats/tokens?period=daily");
    assert_eq!((&empty["total_tokens"], &empty["by_model"]), (&json!(0), &json!({})));
    for model in ["scripted", "demo"] {
        let id = create(&server, &json!({"model": model}))["id"].as_str().expect("an id").to_owned();
        say(&server, &id, &json!({"text": "hi"}));
    }
    // Midnight may pass between two requests: the last week contains both days.
    let week = page(&server, "/api/stats/tokens?period=weekly");
    assert_eq!(week["by_model"]["scripted"], json!({"prompt": 10, "completion": 5, "total": 15}));
    assert!(week["by_model"]["demo"]["total"].as_u64().is_some_and(|total| total > 0));
    let days = week["daily"].as_object().expect("days");
    let sum: u64 = days.values().filter_map(|day| day["total"].as_u64()).sum();
    assert_eq!((days.len(), json!(sum)), (7, week["total_tokens"].clone()));
    let shown = (days.keys().next().cloned(), days.keys().next_back().cloned());
    assert_eq!(
        shown,
        (week["start_date"].as_str().map(str::to_owned), week["end_date"].as_str().map(str::to_owned))
    );
    let month = page(&server, "/api/stats/tokens?period=monthly&tz=Asia/Kolkata");
    assert_eq!(month["daily"].as_object().expect("days").len(), 30);
    assert_eq!(month["total_tokens"], week["total_tokens"]);
    let day = page(&server, "/api/stats/tokens?tz=Europe/Berlin");
    let hours = day["hourly"].as_object().expect("hours");
    assert_eq!((day["period"].as_str(), hours.len()), (Some("daily"), 24));
    for query in ["user_id=1", "user_id=all"] {
        let same = page(&server, &format!("/api/stats/tokens?period=monthly&{query}"));
        assert_eq!(same["total_tokens"], week["total_tokens"], "{query}");
    }
    assert_eq!(page(&server, "/api/stats/tokens?period=monthly&user_id=2")["total_tokens"], 0);
    for (query, expected_error) in
        [("period=yearly", "invalid period"), ("tz=Mars/Base", "'Mars/Base'"), ("user_id=x", "'user_id'")]
    {
        fails(&server.get(&format!("/api/stats/tokens?{query}")), 400, expected_error);
    }
}

#[test]
fn conversations_are_found_by_words_of_their_titles_and_messages() {
    let server = Server::start_against(&echo(), "");
    let (tea, coffee) = (new(&server), new(&server));
    say(&server, &tea, &json!({"text": "Which tea is green?"}));
    say(&server, &coffee, &json!({"text": "And coffee?"}));
    server.ask("PATCH", &format!("/api/conversations/{coffee}"), &json!({"title": "Hot drinks"}));
    let found = |query: &str| -> Vec<Value> {
        let page = page(&server, &format!("/api/conversations?search={query}"));
        page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
    };
    assert_eq!(found("GREEN"), [json!(tea)]);
    assert_eq!(found("drinks%20said"), [json!(coffee)], "in the title and in the answer");
    assert_eq!(found("drinks+green"), Vec::<Value>::new());
    assert_eq!(found("you&limit=1"), [json!(coffee)], "the newest");
    for bad in ["", "%20", &"x".repeat(257)] {
        fails(&server.get(&format!("/api/conversations?search={bad}")), 400, "'search' must have");
    }
}
