"""openai-python: webhooks, with signatures that `unwrap` verifies and events that match its types."""
import http.server, os, queue, threading

import openai
from openai.types.webhooks import BatchCompletedWebhookEvent, ResponseCompletedWebhookEvent

import openai_batches
from openai_chat import options

TIMEOUT_S = 20


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps the headers and the body of each delivery."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.deliveries = queue.Queue()
        self.url = f"http://127.0.0.1:{self.server_port}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()
        self.server.deliveries.put((dict(self.headers), body))

    def log_message(self, *_):
        pass


def event(client, receiver, kind):
    """The event of the next delivery, which must be of this type."""
    headers, body = receiver.deliveries.get(timeout=TIMEOUT_S)
    found = client.webhooks.unwrap(body, headers)
    kind.model_validate_json(body, strict=True)
    assert isinstance(found, kind), found
    try:
        client.webhooks.unwrap(body.replace(b"completed", b"cancelled"), headers)
    except openai.InvalidWebhookSignatureError:
        return found
    raise AssertionError("a changed body has a valid signature")


def response(client, receiver):
    fields = {"background": True, "extra_headers": {"NanoClaw-Webhook": receiver.url}}
    created = client.responses.create(model="scripted", input="hello", **fields)
    assert event(client, receiver, ResponseCompletedWebhookEvent).data.id == created.id, created
    assert client.responses.retrieve(created.id).output_text == "You said: hello"


def batch(client, receiver):
    file = openai_batches.upload(client, "/v1/responses", {"hello": {"input": "hello"}})
    fields = {"endpoint": "/v1/responses", "completion_window": "24h", "extra_query": {"webhook_url": receiver.url}}
    created = client.batches.create(input_file_id=file.id, **fields)
    assert event(client, receiver, BatchCompletedWebhookEvent).data.id == created.id, created
    assert client.batches.retrieve(created.id).status == "completed"


def run(url):
    receiver = Receiver()
    with openai.OpenAI(**options(url), webhook_secret=os.environ["WEBHOOK_SECRET"]) as client:
        for part in (response, batch):
            part(client, receiver)
            yield part.__name__
    receiver.shutdown()
