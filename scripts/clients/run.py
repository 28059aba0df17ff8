"""Runs clients against one server: run.py BINARY [CLIENT]. Started by scripts/compat."""
import base64, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "load"))
import upstream
from recorder import Recorder
from server import Server

CONFIG = """
models:
  - {{id: scripted, api_url: "{0}", vision: true}}
  - {{id: org/agent, api_url: "{0}", vision: true, agent: true}}
  # Some clients have a list of names, or look at the name for what a model can do.
  - {{id: gpt-4o, api_url: "{0}", vision: true}}
  - {{id: gpt-5, api_url: "{0}", vision: true}}
  - {{id: claude-sonnet-4-5, api_url: "{0}", vision: true}}
mcp_servers:
  fake: {{command: python3, args: ["{2}/server.py", normal], readable: ["{2}"]}}
limits: {{disk_free_bytes: 0, disk_free_percent: 0}}
webhooks: {{allow_private_addresses: [127.0.0.1], secrets: ["{1}"]}}
"""
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
MCP = os.path.abspath(os.path.join(HERE, "../../tests/fake_mcp"))
COMPAT = os.path.abspath("target/compat")
PYTHON = [os.path.join(COMPAT, "main/bin/python"), os.path.join(HERE, "check.py")]
LLAMA_PYTHON = [os.path.join(COMPAT, "llama/bin/python"), os.path.join(HERE, "check.py")]
NODE = [os.path.join(COMPAT, "main/bin/node")]
# The name that is printed, and the command; the base URL follows.
CLIENTS = [
    ("openai-python, chat", [*PYTHON, "openai_chat"]),
    ("openai-python, responses", [*PYTHON, "openai_responses"]),
    ("openai-python, conversations", [*PYTHON, "openai_conversations"]),
    ("openai-python, WebSocket", [*PYTHON, "openai_web_socket"]),
    ("openai-python, files and batches", [*PYTHON, "openai_files"]),
    ("openai-python, answers of batches", [*PYTHON, "openai_batches"]),
    ("openai-python, webhooks", [*PYTHON, "openai_webhooks"]),
    ("openai-node", [*NODE, os.path.join(COMPAT, "node/openai.mjs")]),
    ("Vercel AI SDK", [*NODE, os.path.join(COMPAT, "node/vercel.mjs")]),
    ("LangChain", [*PYTHON, "langchain_client"]),
    ("LlamaIndex", [*LLAMA_PYTHON, "llama_index_client"]),
    ("pydantic-ai", [*PYTHON, "pydantic_ai_client"]),
    ("OpenAI Agents SDK", [*PYTHON, "openai_agents"]),
    ("LiteLLM", [*PYTHON, "litellm_client"]),
    ("anthropic-python", [*PYTHON, "anthropic_messages"]),
    ("llm-comply", [*PYTHON, "comply"]),
]
TIMEOUT_S = 120


def crash(server):
    server.kill()
    server.start()


def run(command, url, crash_url):
    """The checks that passed, and the error text if one failed."""
    added = {"CRASH_URL": crash_url, "OPENAI_API_KEY": "unused", "WEBHOOK_SECRET": SECRET}
    environment = os.environ | added | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run([*command, url], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode().split("\n"), f"no end after {TIMEOUT_S} s"
    return ended.stdout.split("\n"), ended.stderr[-4000:] if ended.returncode else None


def main(binary, wanted=""):
    """How many clients failed."""
    clients = [(name, command) for name, command in CLIENTS if wanted.lower() in name.lower()]
    if not clients:
        sys.exit(f"no client has {wanted!r} in its name: {'; '.join(name for name, _ in CLIENTS)}")
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        config = os.path.join(directory, "config.yml")
        provider = upstream.Provider()
        with open(config, "w") as file:
            file.write(CONFIG.format(provider.url, SECRET, MCP))
        server = Server(binary, directory, config)
        server.start()
        provider.crash = lambda: crash(server)
        try:
            for name, command in clients:
                recorder = Recorder(server.port)
                passed, error = run(command, f"http://127.0.0.1:{recorder.port}/v1", provider.crash_url)
                passed = ", ".join(filter(None, passed)) or "nothing"
                print(f"{name}: {passed} passed{'' if error is None else ', then a check FAILED'}", flush=True)
                if error is not None:
                    failed += 1
                    print(f"{error}\nThe last that was sent and received:{recorder.last()}", flush=True)
        finally:
            server.kill()
    return failed


sys.exit(1 if main(*sys.argv[1:]) else 0)
