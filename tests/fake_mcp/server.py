"""A small MCP server for tests: over its pipes, or over HTTP on loopback. Every fault that a server can have is a mode or a
tool of it.

    server.py MODE                pipes; MODE: normal | bare | mute | noisy | slow | dies
    server.py http json|sse|old   HTTP; prints its address first; old: HTTP with SSE, as in 2024
"""

import base64
import json
import os
import queue
import sys
import threading
import time
import urllib.request


def tool(name, properties=None, required=(), **more):
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return {"name": name, "description": "Does " + name + ".", "inputSchema": schema, **more}


TEXT = {"text": {"type": "string"}}
PAGES = [
    [
        tool("echo", TEXT, ["text"], annotations={"readOnlyHint": True, "idempotentHint": True}),
        tool("get.sum", {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, ["a"]),
        tool("fail", annotations={"readOnlyHint": True}), tool("refuse"), tool("overwrite", {"path": {"type": "string"}}, ["path"]), tool("picture"), tool("whoami"), tool("long"), tool("flood"),
    ],
    [
        tool("hang"), tool("freeze"), tool("post", {"url": {"type": "string"}}, ["url"]), tool("write", {"path": {"type": "string"}, **TEXT}, ["path", "text"]), tool("cancelled"), tool("grow"), tool("die"), tool("ask"),
        {"name": "broken", "inputSchema": {"type": "object", "properties": {"x": {"type": "no such type"}}}},
        tool("pattern", {"p": {"type": "string", "pattern": "^[0-9]{9}$"}}, ["p"], annotations={"readOnlyHint": True}),
    ],
]


def text(value):
    return {"content": [{"type": "text", "text": value}]}


class Server:
    def __init__(self, send, mode):
        self.send, self.mode = send, mode
        self.cancelled, self.grown, self.calls, self.asked = [], False, 0, None

    def take(self, message):
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            if self.mode == "mute":
                return
            if self.mode == "slow":
                time.sleep(3)
            version = message["params"]["protocolVersion"]
            self.answer(number, {"protocolVersion": version, "serverInfo": {"name": "fake", "version": "1"},
                                 "capabilities": {"tools": {"listChanged": True}, **({} if self.mode == "bare" else {"resources": {}})}})
        elif method == "notifications/cancelled":
            self.cancelled.append(message["params"].get("reason"))
        elif method == "ping":
            self.answer(number, {})
        elif method == "resources/list":
            self.answer(number, {"resources": [{"uri": "demo://text", "name": "text"}, {"uri": "demo://image", "name": "image"}]})
        elif method == "resources/read":
            self.read(number, message["params"]["uri"])
        elif method == "resources/templates/list":
            self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no templates"}})
        elif method == "tools/list":
            self.list(number, (message.get("params") or {}).get("cursor"))
        elif method == "tools/call":
            self.call(number, message["params"]["name"], message["params"].get("arguments") or {})
        elif method is None and self.asked:
            self.hear(message)

    def answer(self, number, result):
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def list(self, number, cursor):
        if cursor is None:
            self.answer(number, {"tools": PAGES[0], "nextCursor": "2"})
        else:
            self.answer(number, {"tools": PAGES[1] + ([tool("grown")] if self.grown else [])})

    def read(self, number, uri):
        if uri == "demo://text":
            self.answer(number, {"contents": [{"uri": uri, "text": "the text of the resource"}]})
        elif uri == "demo://image":
            self.answer(number, {"contents": [{"uri": uri, "mimeType": "image/png", "blob": base64.b64encode(b"x" * 30).decode()}]})
        else:
            self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32002, "message": "no such resource"}})

    def call(self, number, name, arguments):
        self.calls += 1
        if name == "echo":
            self.answer(number, text(arguments["text"]))
        elif name == "get.sum":
            total = arguments["a"] + (arguments.get("b") or 0)
            self.answer(number, {**text(json.dumps({"sum": total})), "structuredContent": {"sum": total}})
        elif name == "fail":
            self.answer(number, {**text("no such thing"), "isError": True})
        elif name == "refuse":
            self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "not today"}})
        elif name == "picture":
            data = base64.b64encode(b"x" * 3000).decode()
            self.answer(number, {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
        elif name == "whoami":
            self.answer(number, text("%s in %s" % (os.environ.get("NAME"), os.getcwd())))
        elif name == "long":
            self.answer(number, text("y" * 2_000_000))
        elif name == "flood":
            self.answer(number, text("z" * 17 * 1024 * 1024))
        elif name == "cancelled":
            self.answer(number, text(json.dumps(self.cancelled)))
        elif name == "grow":
            self.grown = True
            self.answer(number, text("grown"))
            self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        elif name == "write":
            try:
                with open(arguments["path"], "w") as file:
                    file.write(arguments["text"])
                self.answer(number, text("written"))
            except OSError as error:
                self.answer(number, {**text(str(error)), "isError": True})
        elif name == "post":
            try:
                request = urllib.request.Request(arguments["url"], data=b"", method="POST")
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
                    self.answer(number, text("answered %d" % answer.status))
            except OSError as error:
                self.answer(number, {**text(str(error)), "isError": True})
        elif name == "freeze":
            time.sleep(600)
        elif name == "die":
            os._exit(3)
        elif name == "ask":
            self.asked = {"call": number, "heard": {}}
            for method, params in [("sampling/createMessage", {"messages": [], "maxTokens": 1}), ("roots/list", {}),
                                   ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}})]:
                self.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        elif name != "hang":
            self.answer(number, text("called " + name))
        if self.mode == "dies":
            os._exit(4)

    def hear(self, message):
        heard = self.asked["heard"]
        heard[message["id"]] = message["error"]["code"] if "error" in message else message["result"]
        if len(heard) == 3:
            self.answer(self.asked["call"], text(json.dumps(heard)))


def pipes(mode):
    lock = threading.Lock()

    def send(message):
        with lock:
            if mode == "noisy":
                sys.stdout.write("this is no JSON\n{\"jsonrpc\": \n")
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    server = Server(send, mode)
    sys.stderr.write("the fake server is up, key %s\n" % os.environ.get("KEY"))
    sys.stderr.flush()
    for line in sys.stdin:
        server.take(json.loads(line))


def http(kind):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    sessions = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def reply(self, status, body=b"", kind="text/plain", **headers):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if kind != "old":
                return self.reply(405)
            messages, session = queue.Queue(), "s%d" % (len(sessions) + 1)
            sessions[session] = Server(messages.put, "normal")
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: /messages?session=" + session.encode() + b"\n\n")
            while True:
                try:
                    message = messages.get(timeout=1)
                    self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
                except queue.Empty:
                    self.wfile.write(b": still here\n\n")
                except OSError:
                    return
                self.wfile.flush()

        def do_DELETE(self):
            sessions.pop(self.headers.get("Mcp-Session-Id"), None)
            self.reply(200)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if kind == "old":
                server = sessions.get(self.path.partition("session=")[2])
                if server is None:
                    return self.reply(405)
                self.reply(202, b"Accepted")
                return server.take(body)
            if self.path == "/moved":
                return self.reply(307, Location="/mcp")
            if self.headers.get("Authorization") != "Bearer sk-fake-123":
                return self.reply(401, b"who are you?")
            if body.get("method") == "initialize":
                session = "s%d" % (len(sessions) + 1)
                sessions[session] = Server(None, "normal")
            else:
                session = self.headers.get("Mcp-Session-Id")
            server = sessions.get(session)
            if server is None:
                return self.reply(404)
            if (body.get("params") or {}).get("name") == "die":
                sessions.clear()
                return self.reply(500, b"the sessions are gone")
            sent = []
            server.send = sent.append
            server.take(body)
            if body.get("id") is None:
                return self.reply(202)
            if kind == "json":
                return self.reply(200, json.dumps(sent[-1]).encode(), "application/json", Mcp_Session_Id=session)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Mcp-Session-Id", session)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for message in sent:
                self.wfile.write(b": a comment\n\nevent: message\ndata: " + json.dumps(message).encode() + b"\n\n")
                self.wfile.flush()
            while not sent:  # hang
                time.sleep(0.05)
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print("http://127.0.0.1:%d/mcp" % server.server_address[1], flush=True)
    server.serve_forever()


if sys.argv[1] == "http":
    http(sys.argv[2])
else:
    pipes(sys.argv[1])
