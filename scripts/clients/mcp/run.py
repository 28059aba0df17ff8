"""Runs the conformance suite and the clients: run.py BINARY [NAME]. Started by scripts/mcp-clients."""
import os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "load"))
from server import Server

COMPAT = os.path.abspath("target/compat")
PYTHON = os.path.join(COMPAT, "mcp/bin/python")
LANGCHAIN_PYTHON = os.path.join(COMPAT, "mcp-langchain/bin/python")
NODE = os.path.join(COMPAT, "mcp/bin/node")
SUITE = os.path.join(COMPAT, "mcp-node/node_modules/@modelcontextprotocol/conformance/dist/index.js")
CLIENTS = [
    ("Python SDK", [PYTHON, os.path.join(HERE, "python_sdk.py")]),
    ("Node.js SDK", [NODE, os.path.join(COMPAT, "mcp-node/client.mjs")]),
    ("FastMCP", [PYTHON, os.path.join(HERE, "fastmcp_client.py")]),
    ("LangChain", [LANGCHAIN_PYTHON, os.path.join(HERE, "langchain_client.py")]),
]
# The other 26 need tools, prompts and resources of these tests (test_simple_text, test://static-text …), or
# capabilities that the server does not claim: logging, completions, prompts, subscriptions, elicitation. The
# methods of these are unknown to it (-32601), as the specification wants.
SCENARIOS = [
    "server-initialize", "ping", "tools-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection",
]
CONFIG = "limits: {disk_free_bytes: 0, disk_free_percent: 0}\n"
TIMEOUT_S = 120


def run(command):
    """What was printed, and the error text if it failed."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                               env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(), f"no end after {TIMEOUT_S} s"
    return ended.stdout, (ended.stdout + ended.stderr)[-4000:] if ended.returncode else None


def report(name, passed, error):
    print(f"{name}: {passed}{'' if error is None else ' FAILED'}", flush=True)
    if error is not None:
        print(error, flush=True)
    return error is not None


def main(binary, wanted=""):
    """How many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        config = os.path.join(directory, "config.yml")
        with open(config, "w") as file:
            file.write(CONFIG)
        server = Server(binary, directory, config)
        server.start()
        url = f"http://127.0.0.1:{server.port}/mcp"
        try:
            for scenario in SCENARIOS:
                if wanted.lower() in f"conformance {scenario}":
                    out, error = run([NODE, SUITE, "server", "--url", url, "--scenario", scenario])
                    totals = re.findall(r"Passed: (\d+/\d+)", out)
                    failed += report(f"conformance {scenario}", totals[-1] if totals else "?", error)
            for name, command in CLIENTS:
                stdio = [binary, "mcp", "serve", "--config", config, "--data-dir", os.path.join(directory, "stdio")]
                for kind, target in (("http", [url]), ("stdio", stdio)):
                    if wanted.lower() in f"{name} {kind}".lower():
                        out, error = run([*command, kind, *target])
                        failed += report(f"{name}, {kind}", ", ".join(out.split("\n")[:-1]), error)
        finally:
            server.kill()
    return failed


sys.exit(1 if main(*sys.argv[1:]) else 0)
