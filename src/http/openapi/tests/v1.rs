//! `/v1` and what stands beside it.

use super::Drawing;
use super::api::projects::tags;
use super::bodies::body;
use super::operation::{Operation, events, json_of, named};
use crate::domain::batch_object::{BatchObject, COMPLETION_WINDOW};
use crate::domain::id::{BatchId, ConversationId, JobId, ScheduleId};
use crate::domain::image::ImageType;
use crate::domain::job_object::JobObject;
use crate::http::ToolResponse;
use crate::http::dependencies::AppDependencies;
use crate::http::health::{HealthResponse, ReadinessResponse};
use crate::http::v1::batches::check::BatchCheckResponse;
use crate::http::v1::batches::from_file::FileBatchRequest;
use crate::http::v1::batches::result_lines::BatchResultLine;
use crate::http::v1::batches::{BatchListResponse, DeletedBatchResponse};
use crate::http::v1::jobs;
use crate::http::v1::jobs::approval::{ApproveRequest, DecidedJobResponse, DenyRequest};
use crate::http::v1::jobs::spec::JobRequest;
use crate::http::v1::log::{CheckpointObject, LogKeyResponse, NewCheckpointResponse};
use crate::http::v1::memory::{MemoryRequest, MemoryResponse};
use crate::http::v1::nodes::NodesResponse;
use crate::http::v1::page::ListResponse;
use crate::http::v1::schedules::request::{PreviewRequest, ScheduleChange, ScheduleRequest};
use crate::http::v1::schedules::view::ScheduleResponse;
use crate::http::v1::status::StatusResponse;
use crate::http::v1::usage_groups::{ConversationUsageResponse, UserUsageResponse};
use crate::http::v1::{schedules, usage, webhooks};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing, app: &AppDependencies) {
    components(drawing, app);
    console(drawing);
    health(drawing);
    jobs(drawing, app);
    batches(drawing, app);
    schedule_routes(drawing, app);
    tool_routes(drawing);
    memory_routes(drawing);
    reports(drawing);
}

/// What a page's size may be.
pub(super) fn limit(app: &AppDependencies) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": app.limits.page_max, "x-limit": "page_max"})
}

fn components(drawing: &mut Drawing, app: &AppDependencies) {
    let limits = &app.limits;
    drawing.component("Model", json!({"type": "string", "description": "A configured model's id"}));
    drawing.component("ToolName", json!({"type": "string"}));
    drawing.component(
        "Moment",
        json!({
            "description": "Unix seconds, or RFC 3339 with its offset",
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 253_402_207_200_u64},
                {"type": "string", "format": "date-time", "pattern": "^(197[1-9]|19[89][0-9]|[2-9][0-9]{3})-"},
            ],
        }),
    );
    let attachment = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$"},
            "extension": {"type": ["string", "null"], "maxLength": 32, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$"},
            "content": {"type": "string", "description": "text; of png, jpg, gif, webp: base64 or a data URL"},
        },
        "required": ["name", "content"],
        "additionalProperties": false,
    });
    drawing.component("Attachment", attachment);
    drawing.component(
        "Attachments",
        json!({"type": "array", "maxItems": limits.input_attachments, "items": named("Attachment")}),
    );
    let content = json!({"type": "string"});
    let message = |roles: Value, content: Value| {
        json!({
            "type": "object",
            "properties": {"role": {"enum": roles}, "content": content},
            "required": ["role", "content"],
            "additionalProperties": false,
        })
    };
    let mut asked = message(json!(["user"]), json!({"type": "string", "pattern": "\\S"}));
    asked["properties"]["attachments"] = named("Attachments");
    drawing.component("Asked", asked.clone());
    asked["properties"]["content"] = content.clone();
    drawing.component("Message", json!({"anyOf": [asked, message(json!(["system", "assistant"]), content)]}));
    drawing.component(
        "Input",
        json!({
            "description": "The prompt, or a list of messages of which at least one is the user's and says something",
            "anyOf": [
                {"type": "string", "pattern": "\\S"},
                {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": limits.input_messages,
                    "items": named("Message"),
                    "contains": named("Asked"),
                },
            ],
        }),
    );
    drawing.component(
        "Metadata",
        json!({
            "type": "object",
            "maxProperties": limits.metadata_pairs,
            "propertyNames": {"minLength": 1, "maxLength": limits.metadata_key_chars},
            "additionalProperties": {"type": "string", "maxLength": limits.metadata_value_chars},
        }),
    );
    drawing.component("Job", job(app));
}

fn job(app: &AppDependencies) -> Value {
    let tools = json!({"anyOf": [{"type": "boolean"}, {"type": "array", "items": named("ToolName")}]});
    let url = json!({"type": "string", "format": "uri", "pattern": "^https?://[A-Za-z0-9.-]+(:[0-9]{1,4})?(/[A-Za-z0-9/._~-]*)?$", "maxLength": 2_048});
    let id = json!({"type": "string", "pattern": "^job_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
    let after = json!({"type": "array", "maxItems": app.limits.job_predecessors, "items": id});
    let special = [
        ("input", named("Input")),
        ("model", named("Model")),
        ("tools", tools),
        ("run_at", named("Moment")),
        ("after", after),
        ("deadline_at", named("Moment")),
        ("expires_at", named("Moment")),
        ("metadata", named("Metadata")),
        ("webhook_url", url),
    ];
    let mut job = body::<JobRequest>(&special, &["input"]);
    for (field, most, limit) in [
        ("timeout_s", app.limits.job_timeout_max_s, "job_timeout_max_s"),
        ("max_attempts", app.limits.job_attempts.into(), "job_attempts"),
        ("max_steps", app.max_iterations.into(), "max_iterations"),
    ] {
        job["properties"][field] =
            json!({"type": ["integer", "null"], "minimum": 1, "maximum": most, "x-limit": limit});
    }
    job
}

fn console(drawing: &mut Drawing) {
    let page = Operation::new("GET", "/", "The web console, unless console: false").public();
    let page = page.says(200, "The page", json!({"text/html": {"schema": {"type": "string"}}}));
    drawing.add(page.says(304, "The page has not changed", Value::Null));
    let file = Operation::new("GET", "/console/{version}/{*file}", "A file of the console").public();
    let any = json!({"type": "string", "contentEncoding": "binary"});
    drawing.add(file.says(200, "The file", json!({"text/javascript": {"schema": any}})));
}

fn health(drawing: &mut Drawing) {
    let alive = Operation::new("GET", "/healthz", "Whether the process is alive").public();
    let alive = alive.answers::<HealthResponse>(drawing, 200, "It is");
    drawing.add(alive);
    let ready = Operation::new("GET", "/readyz", "Whether store, workers and sandbox are able").public();
    let ready = ready.answers::<ReadinessResponse>(drawing, 200, "They are").answers::<ReadinessResponse>(
        drawing,
        503,
        "Not all are",
    );
    drawing.add(ready);
    let figures = json!({"text/plain; version=0.0.4; charset=utf-8": {"schema": {"type": "string"}}});
    let metrics = Operation::new("GET", "/metrics", "What was counted, for Prometheus (administrators)");
    drawing.add(metrics.says(200, "The text format 0.0.4", figures));
    let document = Operation::new("GET", "/openapi.json", "This document").public();
    drawing.add(document.says(200, "OpenAPI 3.1", json_of(json!({"type": "object"}))));
}

/// The events of the log, as clients read them in `data:`.
fn event_shapes(drawing: &mut Drawing) {
    let names = [
        ("status", drawing.shape::<crate::http::sse::event::StatusFrame<'_>>()),
        ("process_step", drawing.shape::<crate::http::sse::event::StepFrame<'_>>()),
        ("process_step, delta", drawing.shape::<crate::http::sse::event::DeltaFrame<'_>>()),
        ("process_step, tool_call", drawing.shape::<crate::http::sse::event::ToolCallFrame<'_>>()),
        ("process_step, tool_result", drawing.shape::<crate::http::sse::event::ToolResultFrame<'_>>()),
        ("step_discarded", drawing.shape::<crate::http::sse::event::StepDiscardedFrame>()),
        ("summary", drawing.shape::<crate::http::sse::event::SummaryFrame<'_>>()),
        ("gap", drawing.shape::<crate::http::sse::event::GapFrame>()),
        ("done", drawing.shape::<crate::http::sse::event::DoneFrame<'_>>()),
        ("error", drawing.shape::<crate::http::sse::event::ErrorFrame<'_>>()),
    ];
    let shapes = names.into_iter().map(|(title, schema)| json!({"title": title, "allOf": [schema]}));
    let shapes: Vec<Value> = shapes.collect();
    let data = json!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": named("EventData"),
    });
    drawing.component(
        "EventFrame",
        json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": data},
        }),
    );
    drawing
        .component("EventData", json!({"description": "What follows `data:` in an event", "anyOf": shapes}));
}

/// A wait's length.
fn wait(app: &AppDependencies) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": app.limits.wait_s, "x-limit": "wait_s"})
}

/// An idempotency key, bare.
pub(super) fn key() -> Value {
    json!({"type": "string", "maxLength": 255, "pattern": "^[!#-~]([ -~]*[!-~])?$"})
}

fn images(drawing: &mut Drawing) {
    let types = [ImageType::Png, ImageType::Jpeg, ImageType::Gif, ImageType::Webp].map(ImageType::as_str);
    let image =
        types.map(|kind| (kind.to_owned(), json!({"schema": {"type": "string", "contentMediaType": kind}})));
    let image: Value = image.into_iter().collect::<serde_json::Map<_, _>>().into();
    let show = Operation::new("GET", "/v1/jobs/{id}/images/{n}", "An image of its input, counted from 0");
    drawing.add(show.says(200, "Its bytes", image));
}

fn verification(drawing: &mut Drawing) {
    let verify = Operation::new("GET", "/v1/jobs/{id}/verify", "Whether its log is as it was written");
    let verify = verify.answers::<jobs::verify::VerificationResponse>(drawing, 200, "The verdict");
    drawing.add(verify);
}

fn jobs(drawing: &mut Drawing, app: &AppDependencies) {
    event_shapes(drawing);
    let words = json!({"enum": ["queued", "running", "waiting", "succeeded", "failed", "cancelled"]});
    let list = Operation::new("GET", "/v1/jobs", "Your jobs, newest first")
        .query("status", words)
        .query("parent", drawing.shape::<JobId>())
        .query("batch_id", drawing.shape::<BatchId>())
        .query("schedule_id", drawing.shape::<ScheduleId>())
        .query("conversation_id", drawing.shape::<ConversationId>())
        .query("model", json!({"type": "string"}))
        .query("metadata", json!({"type": "string", "description": "key=value", "pattern": "="}))
        .query("created_from", named("Moment"))
        .query("created_before", named("Moment"))
        .query("limit", limit(app))
        .query("cursor", json!({"type": "string", "pattern": "^[0-9]{1,19}$"}))
        .answers::<ListResponse<JobObject, String>>(
            drawing,
            200,
            "A page; with a filter it may be short or empty although more follow",
        );
    drawing.add(list);
    let job_and_events = |drawing: &mut Drawing| {
        let mut content = json_of(drawing.shape::<JobObject>());
        content["text/event-stream"] = json!({"schema": named("EventFrame")});
        content
    };
    let (held, stored) = (job_and_events(drawing), json_of(drawing.shape::<JobObject>()));
    let submit = Operation::new("POST", "/v1/jobs", "Stores a job; the answer means that it is on the disk")
        .query("wait", wait(app))
        .query("stream", json!({"type": "boolean"}))
        .query("format", json!({"enum": ["cumulative", "delta"]}))
        .header("Idempotency-Key", key())
        .takes(json_of(named("Job")))
        .says(200, "The job has ended, or its events follow", held)
        .says(202, "The job is stored", stored);
    drawing.add(submit);
    let show = Operation::new("GET", "/v1/jobs/{id}", "A job").query("wait", wait(app));
    let show = show.query("include", json!({"enum": ["input"]}));
    let show = show.answers::<JobObject>(drawing, 200, "As it stands");
    drawing.add(show);
    let delete = Operation::new("DELETE", "/v1/jobs/{id}", "Deletes an ended job");
    let delete = delete.answers::<jobs::DeletedJobResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let text = json!({"text/plain": {"schema": {"type": "string"}}});
    drawing
        .add(Operation::new("GET", "/v1/jobs/{id}/output", "The answer's text").says(200, "The text", text));
    verification(drawing);
    images(drawing);
    let follow = Operation::new("GET", "/v1/jobs/{id}/events", "What has happened, and what happens")
        .query("after", json!({"type": "integer", "minimum": 0}))
        .query("follow", json!({"type": "boolean"}))
        .query("format", json!({"enum": ["cumulative", "delta"]}))
        .says(200, "Events; see EventData", events())
        .says(204, "The job has ended, and nothing follows", Value::Null);
    drawing.add(follow);
    let audit = Operation::new("GET", "/v1/jobs/{id}/audit", "What became of its calls of tools");
    let audit = audit.answers::<ListResponse<jobs::AuditEntryResponse, String>>(
        drawing,
        200,
        "The calls, oldest first",
    );
    drawing.add(audit);
    for (path, summary) in [
        ("/v1/jobs/{id}/cancel", "Asks for the job's end"),
        ("/v1/jobs/{id}/retry", "Runs a failed job again, from its last recorded step"),
    ] {
        let status = if path.ends_with("retry") { 202 } else { 200 };
        let act = Operation::new("POST", path, summary).answers::<JobObject>(drawing, status, "The job");
        drawing.add(act);
    }
    approvals(drawing);
}

/// What a job's user says to calls that wait.
fn approvals(drawing: &mut Drawing) {
    let ids = json!({"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string"}});
    let special = [("calls", ids)];
    let sides = [
        (
            "/v1/jobs/{id}/approve",
            "Lets calls be made that wait for approval",
            "Approval",
            body::<ApproveRequest>(&special, &[]),
        ),
        (
            "/v1/jobs/{id}/deny",
            "Refuses calls that wait for approval; the model is told",
            "Denial",
            body::<DenyRequest>(&special, &[]),
        ),
    ];
    for (path, summary, name, schema) in sides {
        drawing.component(name, schema);
        let act = Operation::new("POST", path, summary).may_take(json_of(named(name)));
        let act = act.answers::<DecidedJobResponse>(drawing, 200, "The job, and the calls that it is about");
        drawing.add(act);
    }
}

fn tool_routes(drawing: &mut Drawing) {
    let list = Operation::new("GET", "/v1/tools", "What models may call");
    let list = list.answers::<ListResponse<ToolResponse, String>>(
        drawing,
        200,
        "All tools, in the order in which models see them",
    );
    drawing.add(list);
    let object = || json_of(json!({"type": "object"}));
    let call =
        Operation::new("POST", "/v1/tools/{name}/call", "Calls a tool outside of any job (administrators)")
            .query("project_id", json!({"type": "string"}))
            .takes(object())
            .says(200, "The result, as a model would get it", object());
    drawing.add(call);
}

fn memory_routes(drawing: &mut Drawing) {
    let project =
        || json!({"type": "string", "description": "The memory of this project instead of the user's"});
    let read = Operation::new("GET", "/v1/memory", "What jobs keep for later ones");
    let read = read.query("project_id", project()).header("If-None-Match", tags());
    let read = read.answers::<MemoryResponse>(drawing, 200, "The memory; its ETag is its version");
    drawing.add(read.says(304, "It still has the version of If-None-Match", Value::Null));
    drawing.component("NewMemory", body::<MemoryRequest>(&[], &[]));
    let write = Operation::new("PUT", "/v1/memory", "Replaces the text of a memory");
    let write = write.query("project_id", project()).header("If-Match", tags());
    let write = write.takes(json_of(named("NewMemory")));
    let write = write.answers::<MemoryResponse>(drawing, 200, "The memory as it is now");
    drawing.add(write);
}

fn batches(drawing: &mut Drawing, app: &AppDependencies) {
    let line = json!({
        "type": "object",
        "properties": {
            "custom_id": {"type": "string", "minLength": 1, "maxLength": 256},
            "body": named("Job"),
        },
        "required": ["custom_id", "body"],
        "additionalProperties": false,
    });
    drawing.component("BatchLine", line);
    drawing.component(
        "BatchLines",
        json!({
            "description": "A line of JSON for each item; custom_id is unique. A line of OpenAI's batches (method, url) is taken as well",
            "type": "array",
            "minItems": 1,
            "maxItems": app.limits.batch_lines,
            "x-limit": "batch_lines",
            "items": named("BatchLine"),
        }),
    );
    let list = Operation::new("GET", "/v1/batches", "Your batches, newest first")
        .query("limit", limit(app))
        .query("cursor", json!({"type": "string", "pattern": "^batch_[0-7][0-9A-HJKMNP-TV-Z]{25}$"}))
        .query("after", json!({"type": "string", "pattern": "^batch_[0-7][0-9A-HJKMNP-TV-Z]{25}$"}))
        .answers::<BatchListResponse>(drawing, 200, "A page");
    drawing.add(list);
    let window = json!({"enum": [COMPLETION_WINDOW]});
    let required = ["input_file_id", "endpoint", "completion_window"];
    drawing.component("FileBatch", body::<FileBatchRequest>(&[("completion_window", window)], &required));
    for method in ["POST", "PUT"] {
        let lines = json!({
            "application/jsonl": {"schema": named("BatchLines")},
            "application/json": {"schema": named("FileBatch")},
        });
        let stored = [drawing.shape::<BatchObject>(), drawing.shape::<BatchCheckResponse>()];
        let stored = json_of(json!({"anyOf": stored}));
        let accept = Operation::new(method, "/v1/batches", "Stores a batch of jobs, all or none")
            .query("concurrency", json!({"type": "integer", "minimum": 1, "maximum": app.limits.batch_concurrency, "x-limit": "batch_concurrency"}))
            .query("completion_window_s", json!({"type": "integer", "minimum": 1, "maximum": 2_592_000, "description": "When the batch expires; by default that of a file after 24 hours, others never"}))
            .query("webhook_url", json!({"type": "string", "format": "uri"}))
            .query("dry_run", json!({"type": "boolean", "description": "Check the lines and store nothing"}))
            .header("Idempotency-Key", key())
            .takes(lines)
            .says(200, "The batch of a file is stored, or has failed and says why; or what is wrong", stored)
            .answers::<BatchObject>(drawing, 202, "The batch is stored");
        drawing.add(accept);
    }
    let show = Operation::new("GET", "/v1/batches/{id}", "A batch").query("wait", wait(app));
    let show = show.answers::<BatchObject>(drawing, 200, "As it stands");
    drawing.add(show);
    let delete = Operation::new("DELETE", "/v1/batches/{id}", "Forgets an ended batch; its jobs stay");
    let delete = delete.answers::<DeletedBatchResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
    let line = drawing.shape::<BatchResultLine<'_>>();
    let lines = json!({"application/jsonl": {"schema": {"type": "string", "description": "JSON lines"}}});
    drawing.component("BatchResultLine", line);
    let results =
        Operation::new("GET", "/v1/batches/{id}/results", "Results, a line each; see BatchResultLine")
            .query("follow", json!({"type": "boolean"}))
            .query("after", json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}))
            .says(200, "Lines", lines);
    drawing.add(results);
    let cancel = Operation::new("POST", "/v1/batches/{id}/cancel", "No further line begins");
    let cancel = cancel.answers::<BatchObject>(drawing, 200, "The batch");
    drawing.add(cancel);
}

fn at() -> Value {
    json!({"type": "string", "format": "date-time", "pattern": "^2[1-9]"})
}

/// A body with exactly one timing.
fn with_timing<T: JsonSchema>(special: &[(&str, Value)]) -> Value {
    let forms = ["at", "every_s", "cron"].into_iter().map(|timing| {
        let mut form = body::<T>(special, &[timing]);
        let others = ["at", "every_s", "cron", "tz"].into_iter();
        for other in others.filter(|other| *other != timing && !(timing == "cron" && *other == "tz")) {
            form["properties"][other] = json!({"type": "null"});
        }
        form
    });
    json!({"oneOf": forms.collect::<Vec<_>>()})
}

fn schedule_routes(drawing: &mut Drawing, app: &AppDependencies) {
    let mut scheduled = job(app);
    for field in ["run_at", "after", "on_failure", "deadline_at", "expires_at"] {
        scheduled["properties"][field] = json!({"type": "null"});
    }
    drawing.component("ScheduledJob", scheduled);
    let new = with_timing::<ScheduleRequest>(&[("at", at()), ("job", named("ScheduledJob"))]);
    drawing.component("NewSchedule", new);
    let list = Operation::new("GET", "/v1/schedules", "Your schedules, newest first")
        .query("limit", limit(app))
        .query("cursor", json!({"type": "string", "pattern": "^sched_[0-7][0-9A-HJKMNP-TV-Z]{25}$"}))
        .answers::<ListResponse<ScheduleResponse, String>>(drawing, 200, "A page");
    drawing.add(list);
    let create = Operation::new("POST", "/v1/schedules", "Stores a schedule")
        .takes(json_of(named("NewSchedule")))
        .answers::<ScheduleResponse>(drawing, 201, "It is stored");
    drawing.add(create);
    let show = Operation::new("GET", "/v1/schedules/{id}", "A schedule");
    let show = show.answers::<ScheduleResponse>(drawing, 200, "As it stands");
    drawing.add(show);
    drawing.component("ScheduleTiming", with_timing::<PreviewRequest>(&[("at", at())]));
    let preview =
        Operation::new("POST", "/v1/schedules/preview", "The next runs of such a schedule, at most 10")
            .takes(json_of(named("ScheduleTiming")))
            .answers::<ListResponse<u64, String>>(drawing, 200, "Unix seconds; nothing is stored");
    drawing.add(preview);
    let change = Operation::new("PATCH", "/v1/schedules/{id}", "Pauses a schedule, or lets it go on")
        .takes(json_of(body::<ScheduleChange>(&[], &["paused"])))
        .answers::<ScheduleResponse>(drawing, 200, "As it stands");
    drawing.add(change);
    let run = Operation::new("POST", "/v1/schedules/{id}/run", "Runs a schedule now; its next run stays");
    let run = run.answers::<JobObject>(drawing, 202, "The job is stored");
    drawing.add(run);
    let delete = Operation::new("DELETE", "/v1/schedules/{id}", "Forgets a schedule; its jobs stay");
    let delete = delete.answers::<schedules::DeletedScheduleResponse>(drawing, 200, "It is gone");
    drawing.add(delete);
}

fn reports(drawing: &mut Drawing) {
    let list = Operation::new("GET", "/v1/webhooks", "Your deliveries, newest first")
        .query("state", json!({"enum": ["pending", "delivered", "dead"]}))
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
        .query("cursor", json!({"type": "string", "pattern": "^whd_[0-7][0-9A-HJKMNP-TV-Z]{25}$"}))
        .answers::<ListResponse<webhooks::DeliveryResponse, String>>(drawing, 200, "A page");
    drawing.add(list);
    let show = Operation::new("GET", "/v1/webhooks/{id}", "A delivery");
    let show = show.answers::<webhooks::DeliveryResponse>(drawing, 200, "As it stands");
    drawing.add(show);
    let retry = Operation::new("POST", "/v1/webhooks/{id}/retry", "Tries a delivery now");
    let retry = retry.answers::<webhooks::DeliveryResponse>(drawing, 202, "It is tried");
    drawing.add(retry);
    let date = json!({"type": "string", "format": "date"});
    let lists = [
        drawing.shape::<ListResponse<usage::UsageResponse, String>>(),
        drawing.shape::<ListResponse<UserUsageResponse, String>>(),
        drawing.shape::<ListResponse<ConversationUsageResponse, String>>(),
    ];
    let summary = "Tokens by day and model, by user or conversation, or of a conversation by model";
    let spent = Operation::new("GET", "/v1/usage", summary)
        .query("from", date.clone())
        .query("to", date)
        .query("conversation_id", json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}))
        .query("group_by", json!({"enum": ["user", "conversation"]}))
        .says(200, "What was spent; groups come with the largest first", json_of(json!({"anyOf": lists})));
    drawing.add(spent);
    let status =
        Operation::new("GET", "/v1/status", "The state of the server; most of it for administrators");
    let status = status.answers::<StatusResponse>(drawing, 200, "As it is; null where it is unknown");
    drawing.add(status);
    let key = Operation::new("GET", "/v1/log/key", "The key that signs what retention notes about logs");
    let key = key.answers::<LogKeyResponse>(drawing, 200, "The public key");
    drawing.add(key);
    let path = "/v1/log/checkpoints";
    let list = Operation::new("GET", path, "Signed checkpoints over the logs of ended jobs (administrators)")
        .query("limit", json!({"type": "integer", "minimum": 1, "maximum": 100}))
        .query("cursor", json!({"type": "string", "pattern": "^[0-9]+$"}));
    let list = list.answers::<ListResponse<CheckpointObject, String>>(drawing, 200, "Oldest first");
    drawing.add(list);
    let make = Operation::new("POST", path, "Makes a checkpoint now (administrators)");
    let make = make.answers::<NewCheckpointResponse>(drawing, 200, "The checkpoint");
    drawing.add(make);
    let nodes = Operation::new("GET", "/v1/nodes", "The nodes that share the database (administrators)");
    let nodes = nodes.answers::<NodesResponse>(drawing, 200, "By number; empty without store.url");
    drawing.add(nodes);
    let file = json!({"application/octet-stream": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}});
    let backup = Operation::new("GET", "/v1/backup", "The whole store as one file (administrators)");
    drawing.add(backup.says(200, "The file", file));
}
