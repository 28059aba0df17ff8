"""Asks a model 24 questions through a NanoClaw server and checks its first call of a tool."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# A question, and the calls that are right: a tool, and a regular expression for each argument that matters.
QUESTIONS = [
    ("What is 17*23? Use a tool.", [("calculator", {"expression": r"17\s*\*\s*23"})]),
    ("Compute the square root of 1522756.", [("calculator", {"expression": r"1522756"}), ("execute_python", {"code": "1522756"})]),
    ("How much is 2 to the power of 100, exactly?", [("calculator", {"expression": r"2\s*\*\*\s*100|pow"}), ("execute_python", {"code": "100"})]),
    ("Read the file notes.txt.", [("file_read", {"path": r"^(\./)?notes\.txt$"})]),
    ("Show me the content of docs/plan.md.", [("file_read", {"path": r"docs/plan\.md$"})]),
    ("Write the text hello into the file greeting.txt.", [("file_write", {"path": r"greeting\.txt$", "content": r"(?i)^hello\n?$"})]),
    ("Create a file todo.md with the line: buy milk", [("file_write", {"path": r"todo\.md$", "content": "buy milk"})]),
    ("Add the line 'done' to the end of log.txt.", [("file_write", {"path": r"log\.txt$", "mode": "append"}), ("bash", {"command": r">>\s*log\.txt"})]),
    ("List all files of the project.", [("file_list", {}), ("bash", {"command": r"\b(ls|find)\b"})]),
    ("Which files are in the directory src?", [("file_list", {"path": r"^(\./)?src/?$"}), ("bash", {"command": r"\b(ls|find)\b.*src"})]),
    ("Find all lines that contain TODO in the files of the project.", [("file_search", {"pattern": "TODO"}), ("bash", {"command": "grep.*TODO"})]),
    ("In config.ini replace the text port=80 by port=8080.", [("file_edit", {"path": r"config\.ini$", "old_text": "port=80", "new_text": "port=8080"})]),
    ("Rename the variable foo to bar everywhere in main.py with file_edit.", [("file_edit", {"path": r"main\.py$", "old_text": "foo", "new_text": "bar"})]),
    ("Search the web for the population of Iceland.", [("web_search", {"query": r"(?i)iceland"})]),
    ("Find recent news about the Rust programming language on the internet.", [("web_search", {"query": r"(?i)rust"})]),
    ("Read the web page https://example.com and summarize it.", [("fetch_page", {"url": r"^https://example\.com/?$"})]),
    ("What does the page https://www.rust-lang.org/learn say?", [("fetch_page", {"url": r"rust-lang\.org/learn"})]),
    ("Run the shell command uname -a.", [("bash", {"command": r"uname -a"})]),
    ("Use bash to count the lines of data.csv.", [("bash", {"command": r"wc.*data\.csv|data\.csv.*wc"})]),
    ("Run this Python program: print(sum(range(10)))", [("execute_python", {"code": r"sum\(range\(10\)\)"})]),
    ("Use Python to print the first ten prime numbers.", [("execute_python", {"code": "print"})]),
    ("Remind me every day at 8 o'clock to drink water.", [("cron", {"action": "add", "message": "(?i)water"})]),
    ("Start a background job that writes a long report about whales.", [("spawn", {"task": "(?i)whale"})]),
    ("Show my schedules.", [("cron", {"action": "list"})]),
]


class Server:
    """A NanoClaw server in a directory of its own, in which every call of a tool is denied."""

    def __init__(self, binary, url, model):
        self.directory = tempfile.TemporaryDirectory()
        config = pathlib.Path(self.directory.name, "config.yml")
        key = os.environ.get("TOOL_BENCH_KEY", "none")
        config.write_text(json.dumps({
            "models": [{"id": "model", "upstream_id": model, "api_url": url, "api_key": key}],
            "approval": ["*"], "limits": {"model_failures": 1},
        }))
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--config", config, "--data-dir", self.directory.name + "/data"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=700) as answer:
            return json.load(answer)

    def first_call(self, question, tools):
        """The first call of the model, or its text."""
        job = {"input": question, "temperature": 0, "max_steps": 1, "max_tokens": 300, "approval": "auto-deny"}
        if tools:
            job["tools"] = tools
        job = self.request("POST", "/v1/jobs", job)
        request = urllib.request.Request(f"{self.url}/v1/jobs/{job['id']}/events", headers={"accept": "application/x-ndjson"})
        text = ""
        with urllib.request.urlopen(request, timeout=700) as lines:
            for line in lines:
                event = json.loads(line)
                data = event.get("data", event)
                if data.get("type") == "tool_call" or event.get("event") == "tool_call":
                    self.request("POST", f"/v1/jobs/{job['id']}/cancel")
                    return data
                text = data.get("content") or text
        return {"text": text}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def judge(call, right):
    """Whether tool and arguments are right."""
    names = [name for name, _ in right]
    function = call.get("function") or call.get("tool_call") or call
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {}
    arguments = arguments if isinstance(arguments, dict) else {}
    fits = [all(re.search(pattern, str(arguments.get(key, ""))) for key, pattern in wanted.items())
            for tool, wanted in right if tool == name]
    return name in names, any(fits), f"{name} {json.dumps(arguments, ensure_ascii=False)}" if name else "no call: " + str(call.get("text", ""))


def start_model(directory):
    script = pathlib.Path(__file__).resolve().parents[2].parent / "shared/llm/up.sh"
    if not script.exists():
        sys.exit("there is no ../shared/llm/up.sh here: name an OpenAI-compatible endpoint with --url")
    started = subprocess.run([script, directory, "8399"], stdout=subprocess.PIPE, text=True, check=True)
    return started.stdout.strip().splitlines()[-1], int(pathlib.Path(directory, "server-8399.pid").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="an OpenAI-compatible endpoint, …/v1; without it ../shared/llm is used")
    parser.add_argument("--model", default="model", help="the model's name at the endpoint")
    parser.add_argument("--binary", default="target/release/nanoclaw")
    parser.add_argument("--runs", type=int, default=1, help="how often each question is asked")
    parser.add_argument("--tools", help="tools and groups, with commas; without it the default set")
    parser.add_argument("--llm-dir", default="target/llm", help="where ../shared/llm keeps its files")
    options = parser.parse_args()
    model_pid = None
    if not options.url:
        options.url, model_pid = start_model(options.llm_dir)
    server = Server(os.path.abspath(options.binary), options.url, options.model)
    tools, arguments, asked, began = 0, 0, 0, time.monotonic()
    try:
        print(f"{'tool':<5} {'args':<5} question")
        for question, right in QUESTIONS:
            for _ in range(options.runs):
                call = server.first_call(question, options.tools and options.tools.split(","))
                tool_ok, arguments_ok, shown = judge(call, right)
                tools, arguments, asked = tools + tool_ok, arguments + arguments_ok, asked + 1
                print(f"{'yes' if tool_ok else '-':<5} {'yes' if arguments_ok else '-':<5} {question}")
                if not arguments_ok:
                    print(f"            {' '.join(shown.split())[:160]}", flush=True)
    finally:
        server.stop()
        if model_pid:
            os.kill(model_pid, signal.SIGTERM)
    print(f"right tool {tools} of {asked}, right tool and arguments {arguments} of {asked}, {time.monotonic() - began:.0f} s")


main()
