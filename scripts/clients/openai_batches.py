"""openai-python: files and batches, with results that must be the objects of their routes, strictly."""
import json, time

import openai
from openai.types.batch import Batch
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from openai_chat import PARAMETERS, WEATHER, Event, options, user

FUNCTION = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
SCHEMA = {"name": "event", "schema": Event.model_json_schema()}

CHAT = {
    "hello": {"messages": user("hello"), "seed": 1, "top_p": 0.5, "stop": ["x"]},
    "call": {"messages": user("weather Rome Oslo"), "tools": [WEATHER], "tool_choice": "auto"},
    "event": {"messages": user("event"), "response_format": {"type": "json_schema", "json_schema": SCHEMA}},
    "refused": {"messages": user("refuse")},
}
RESPONSES = {
    "hello": {"input": "hello", "instructions": "be brief", "metadata": {"a": "b"}},
    "call": {"input": "weather Rome Oslo", "tools": [FUNCTION]},
    "event": {"input": "event", "text": {"format": {"type": "json_schema", **SCHEMA}}},
    "refused": {"input": "refuse"},
}


def upload(client, endpoint, bodies):
    lines = [
        {"custom_id": name, "method": "POST", "url": endpoint, "body": {"model": "scripted", **body}}
        for name, body in bodies.items()
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return client.files.create(file=("lines.jsonl", text.encode()), purpose="batch")


def ended(client, endpoint, file):
    batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"a": "b"})
    for _ in range(300):
        # The strict mode of pydantic on the text itself, not on what the client made of it.
        batch = Batch.model_validate_json(client.batches.with_raw_response.retrieve(batch.id).text, strict=True)
        if batch.status in ("completed", "failed", "cancelled", "expired"):
            return batch
        time.sleep(0.1)
    raise AssertionError(f"the batch does not end: {batch}")


def results(client, file):
    lines = [json.loads(line) for line in client.files.content(file).text.splitlines()]
    for line in lines:
        assert line["id"].startswith("batch_req_") and line["error"] is None, line
        assert line["response"]["request_id"], line
    return {line["custom_id"]: line["response"] for line in lines}


def parsed(kind, response):
    assert response["status_code"] == 200, response
    return kind.model_validate_json(json.dumps(response["body"]), strict=True)


def refused(client, batch):
    answer = results(client, batch.error_file_id)["refused"]
    error = answer["body"]["error"]
    assert (answer["status_code"], error["code"]) == (400, "invalid_request"), answer
    assert error["type"] == "invalid_request_error" and "no such thing" in error["message"], error


def chat(client):
    batch = ended(client, "/v1/chat/completions", upload(client, "/v1/chat/completions", CHAT))
    assert (batch.request_counts.completed, batch.request_counts.failed) == (3, 1), batch
    answers = {name: parsed(ChatCompletion, answer) for name, answer in results(client, batch.output_file_id).items()}
    assert answers["hello"].choices[0].message.content == "You said: hello", answers["hello"]
    calls = answers["call"].choices[0].message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Rome", "Oslo"], calls
    assert answers["call"].choices[0].finish_reason == "tool_calls", answers["call"]
    assert Event.model_validate_json(answers["event"].choices[0].message.content).day == "Friday"
    refused(client, batch)


def responses(client):
    batch = ended(client, "/v1/responses", upload(client, "/v1/responses", RESPONSES))
    assert (batch.request_counts.completed, batch.request_counts.failed) == (3, 1), batch
    answers = {name: parsed(Response, answer) for name, answer in results(client, batch.output_file_id).items()}
    assert answers["hello"].output_text == "You said: hello", answers["hello"]
    assert [item.type for item in answers["call"].output if item.type == "function_call"] == ["function_call"] * 2
    assert Event.model_validate_json(answers["event"].output_text).guests == ["Ann", "Bob"]
    stored = client.responses.retrieve(answers["hello"].id)
    assert stored.output_text == "You said: hello", stored
    refused(client, batch)


def faults(client):
    file = upload(client, "/v1/chat/completions", {"a": {"messages": user("x"), "n": 2}, "b": {"messages": 1}})
    batch = ended(client, "/v1/chat/completions", file)
    assert batch.status == "failed" and [fault.line for fault in batch.errors.data] == [1, 2], batch
    listed = client.batches.list(limit=1)
    assert listed.data[0].id == batch.id, listed
    try:
        client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h")
    except openai.BadRequestError as error:
        assert error.param == "endpoint", error
    else:
        raise AssertionError("/v1/embeddings was accepted")


def run(url):
    with openai.OpenAI(**options(url)) as client:
        for part in (chat, responses, faults):
            part(client)
            yield part.__name__
