"""llm-comply: the suites of its formats that this server has."""
import json, os, subprocess, sys

# The suite's list of events has response.reasoning_summary.delta; the Open Responses document and OpenAI have
# response.reasoning_summary_text.delta.
IGNORED = "unknown SSE event type: response.reasoning_summary_text"
# A model for each, because the suites look at its name for what it can do.
FORMATS = {"open-responses": "gpt-5", "openai-chat": "gpt-5", "anthropic": "claude-sonnet-4-5"}


def suite(url, name, model):
    """How many tests there are, and those that failed."""
    program = os.path.join(os.path.dirname(sys.executable), "llm-comply")
    command = [program, "-u", url, "-k", "unused", "-m", model, "--format", name, "--ignore", IGNORED, "--json"]
    results = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["results"]
    failed = {test["id"]: test.get("errors", test["status"]) for test in results if test["status"] != "passed"}
    return len(results), failed


def run(url):
    for name, model in FORMATS.items():
        count, failed = suite(url, name, model)
        assert not failed, f"{name}: {json.dumps(failed, indent=1)}"
        yield f"all {count} of {name}"
