"""A scripted provider: what the newest message of the user says decides the answer."""
import base64, http.server, json, threading, time, zlib

EVENT = {"name": "Fair", "day": "Friday", "guests": ["Ann", "Bob"]}
# Pieces of the slow answer, and the seconds between two.
SLOW, SLOW_S = [f"{n} " for n in range(40)], 0.05
# Bytes of a piece of arguments, and the seconds between two: longer than the server gathers pieces.
PIECE, PIECE_S = 6, 0.03
# A city whose name takes a second.
EVERYWHERE = "_".join(str(n) for n in range(60))


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


def in_pieces(calls):
    """The chunks of calls as providers stream them: the name alone, then pieces of the arguments."""
    for whole in calls:
        index, function = whole["index"], whole["function"]
        yield chunk({"tool_calls": [whole | {"function": function | {"arguments": ""}}]})
        for begin in range(0, len(function["arguments"]), PIECE):
            piece = {"arguments": function["arguments"][begin:begin + PIECE]}
            yield chunk({"tool_calls": [{"index": index, "function": piece}]})


def pause_after(piece, pieces):
    """The seconds between a piece of an answer and the next."""
    if len(pieces) > len(SLOW):
        return SLOW_S
    choices = piece.get("choices") or [{}]
    return PIECE_S if "tool_calls" in choices[0].get("delta", {}) else 0


def offered(request):
    """The names of the functions that the model may call."""
    return {tool["function"]["name"] for tool in request.get("tools", [])}


def text_of(content):
    """The text of a message, which has parts when images are among them."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] if part["type"] == "text" else seen(part["image_url"]["url"]) for part in content)


def seen(url):
    """What the model says of an image: its type and the checksum of its bytes."""
    kind, data = url.removeprefix("data:").split(";base64,")
    return f"{kind} {zlib.crc32(base64.b64decode(data)):08x}"


def answer(request):
    """The chunks of the answer."""
    messages = request["messages"]
    texts = [text_of(m["content"]) for m in messages if m["role"] == "user"]
    results = [m for m in messages if m["role"] == "tool"]
    text = texts[-1] if texts else ""
    handoffs = [name for name in offered(request) if name.startswith("transfer_to_")]
    if text == "hand me over" and handoffs and messages[-1]["role"] != "tool":
        return [chunk({"tool_calls": [call(0, handoffs[0], {})]}), end("tool_calls")]
    if messages[-1]["role"] == "tool":
        return [chunk({"content": f"{len(results)} results: {messages[-1]['content']}"}), end("stop")]
    if text.startswith("weather"):
        cities = [EVERYWHERE if city == "everywhere" else city for city in text.split()[1:]]
        calls = [call(n, "weather", {"city": city}) for n, city in enumerate(cities)]
        return [*in_pieces(calls), end("tool_calls")]
    if text.startswith("compute"):
        calls = [call(0, "calculator", {"expression": "6*7"}), call(1, "weather", {"city": "Rome"})]
        return [*in_pieces(calls), end("tool_calls")]
    if text == "event" and (names := offered(request) & {"final_result", "Event"}):
        # Some clients get structured output from a function.
        return [chunk({"tool_calls": [call(0, names.pop(), EVENT)]}), end("tool_calls")]
    if text == "event":
        event = json.dumps(EVENT)
        return [chunk({"content": event[:9]}), chunk({"content": event[9:]}), end("stop")]
    if text == "refuse":
        return [{"error": {"code": 400, "message": "no such thing"}}]
    if request.get("tool_choice") == "required":
        return [chunk({"tool_calls": [call(0, sorted(offered(request))[0], {"location": "Rome"})]}), end("tool_calls")]
    if text == "slow":
        return [*(chunk({"content": piece}) for piece in SLOW), end("stop")]
    if text == "long":
        return [chunk({"content": "a long an"}), end("length")]
    words = [chunk({"content": word}) for word in ("You ", "said: ", text)]
    return [chunk({"reasoning_content": "hm"}), *words, end("stop")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/crash":
            self.server.provider.crash()
            self.send_response(204)
            self.end_headers()
            return
        pieces = answer(json.loads(body))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
            time.sleep(pause_after(piece, pieces))
        self.wfile.write(b"data: [DONE]\n\n")

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the server was killed while it read an answer

    def log_message(self, *_):
        pass


class Provider:
    """A running provider. A client that asks for `crash_url` has the server killed and started again."""

    def __init__(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.provider = self
        self.crash = lambda: None
        base = f"http://127.0.0.1:{server.server_port}"
        self.url, self.crash_url = f"{base}/v1", f"{base}/crash"
        threading.Thread(target=server.serve_forever, daemon=True).start()
