"""A scripted provider: what the newest message of the user says decides the answer."""
import http.server, json, threading


def chunk(delta, finish_reason=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def end(reason):
    usage = {
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2},
    }
    return chunk({}, reason) | {"usage": usage}


def call(index, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


def answer(request):
    """The chunks of the answer."""
    messages = request["messages"]
    texts = [m["content"] for m in messages if m["role"] == "user"]
    results = [m for m in messages if m["role"] == "tool"]
    text = texts[-1] if texts else ""
    if messages[-1]["role"] == "tool":
        return [chunk({"content": f"{len(results)} results: {messages[-1]['content']}"}), end("stop")]
    if text.startswith("weather"):
        calls = [call(n, "weather", {"city": city}) for n, city in enumerate(text.split()[1:])]
        return [chunk({"tool_calls": calls}), end("tool_calls")]
    if text.startswith("compute"):
        calls = [call(0, "calculator", {"expression": "6*7"}), call(1, "weather", {"city": "Rome"})]
        return [chunk({"tool_calls": calls}), end("tool_calls")]
    if text == "event":
        event = json.dumps({"name": "Fair", "day": "Friday", "guests": ["Ann", "Bob"]})
        return [chunk({"content": event[:9]}), chunk({"content": event[9:]}), end("stop")]
    if text == "refuse":
        return [{"error": {"code": 400, "message": "no such thing"}}]
    if text == "long":
        return [chunk({"content": "a long an"}), end("length")]
    words = [chunk({"content": word}) for word in ("You ", "said: ", text)]
    return [chunk({"reasoning_content": "hm"}), *words, end("stop")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        frames = [f"data: {json.dumps(piece)}\n\n" for piece in answer(request)]
        body = ("".join(frames) + "data: [DONE]\n\n").encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start():
    """The base URL of a running provider."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
