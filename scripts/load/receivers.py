"""The world outside of the servers: a model provider, the receiver of effects, and the receiver of webhooks."""
import http.server, json, threading, time


class Receiver:
    """One HTTP server on loopback. Counts what arrives."""

    def __init__(self):
        self.lock = threading.Lock()
        self.effects = {}   # content of a message -> how often it was sent
        self.webhooks = {}  # job -> ids of the deliveries that arrived
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                try:
                    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    receiver.answer(self, body)
                except OSError:
                    pass  # the node has died

            def log_message(self, *_):
                pass

        class Threads(http.server.ThreadingHTTPServer):
            request_queue_size = 128

        server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, request, body):
        if request.path.endswith("/chat/completions"):
            return complete(request, body)
        with self.lock:
            if request.path == "/effect":
                self.effects[body["content"]] = self.effects.get(body["content"], 0) + 1
            else:
                job = body.get("id") or body.get("data", {}).get("id")
                self.webhooks.setdefault(job, []).append(request.headers["webhook-id"])
        request.send_response(204)
        request.end_headers()


def complete(request, body):
    """Answers as OpenAI does. `effect NAME` calls the tool `message`; `words N` streams; all else is short."""
    last = body["messages"][-1]
    text = last["content"] if isinstance(last["content"], str) else last["content"][-1].get("text", "")
    request.send_response(200)
    request.send_header("Content-Type", "text/event-stream")
    request.end_headers()

    def send(delta, end=None):
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"], "choices": [choice]}
        request.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    verb, _, argument = text.partition(" ")
    if last["role"] == "user" and verb == "effect":
        arguments = json.dumps({"channel": "effects", "content": argument})
        call = {"index": 0, "id": f"call_{argument}", "type": "function", "function": {"name": "message", "arguments": arguments}}
        send({"role": "assistant", "tool_calls": [call]}, "tool_calls")
    else:
        for number in range(int(argument) if verb == "words" else 3):
            send({"content": f"word-{number} "})
            time.sleep(0.02)
        send({}, "stop")
    request.wfile.write(b"data: [DONE]\n\n")
