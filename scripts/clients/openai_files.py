"""openai-python: files, and batches end to end with a crash of the server between."""
import json, time

import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from openai_chat import options, user
from openai_responses import crash

ENDPOINTS = [
    ("/v1/chat/completions", lambda text: {"model": "scripted", "messages": user(text)}, ChatCompletion),
    ("/v1/responses", lambda text: {"model": "scripted", "input": text}, Response),
]


def files(client):
    file = client.files.create(file=("a.jsonl", b"{}\n"), purpose="user_data")
    assert client.files.retrieve(file.id).filename == "a.jsonl"
    assert client.files.content(file.id).read() == b"{}\n"
    assert file.id in [known.id for known in client.files.list(purpose="user_data")]
    assert client.files.delete(file.id).deleted
    try:
        client.files.retrieve(file.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a deleted file was found")


def ended(client, batch):
    end = time.monotonic() + 60
    while batch.status not in ("completed", "failed", "cancelled", "expired"):
        assert time.monotonic() < end, batch
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    return batch


def batches(client):
    for url, body, answer in ENDPOINTS:
        texts = [f"line {n}" for n in range(10)] + ["slow"]
        lines = [
            json.dumps({"custom_id": text, "method": "POST", "url": url, "body": body(text)}) for text in texts
        ]
        file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint=url, completion_window="24h")
        crash()
        batch = ended(client, batch)
        assert (batch.status, batch.request_counts.completed) == ("completed", len(texts)), batch
        output = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
        assert sorted(line["custom_id"] for line in output) == sorted(texts), output
        for line in output:
            answer.model_validate(line["response"]["body"], strict=True)


def wrong_batch(client):
    file = client.files.create(file=("in.jsonl", b"oops\n"), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
    batch = ended(client, batch)
    assert batch.status == "failed" and batch.errors.data[0].line == 1, batch


def run(url):
    with openai.OpenAI(**options(url)) as client:
        for part in (files, batches, wrong_batch):
            part(client)
            yield part.__name__
