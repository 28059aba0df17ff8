"""Runs all clients against one server: run.py BINARY. Started by scripts/compat."""
import os, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "load"))
import openai_batches
import openai_chat
import upstream
from server import Server

CONFIG = """
models:
  - {{id: scripted, api_url: "{0}"}}
  - {{id: org/agent, api_url: "{0}", agent: true}}
limits: {{disk_free_bytes: 0, disk_free_percent: 0}}
"""

with tempfile.TemporaryDirectory() as directory:
    config = os.path.join(directory, "config.yml")
    with open(config, "w") as file:
        file.write(CONFIG.format(upstream.start()))
    server = Server(sys.argv[1], directory, config)
    server.start()
    try:
        for client in (openai_chat, openai_batches):
            for part in client.run(f"http://127.0.0.1:{server.port}/v1"):
                print(f"{client.__name__}: {part} passed", flush=True)
    finally:
        server.kill()
