"""The clients of a soak. Each client performs one task, checks its end, and starts the next.

A submission carries an idempotency key and is repeated until it has an answer; a restart must not make two jobs of
it. A client disconnects and resumes its stream many times, then compares the result with the whole log.
"""
import json, random, time

from frames import faults, join
from server import INTERRUPTED, ENDED, TERMINAL

TIMEOUT_S = 180  # for an accepted job to end; far longer than any job takes
CONVERSATIONS = 12

PROGRAMS = [
    "```python\nprint(sum(range(1000)))\n```",
    "```python\nimport json, math\nprint(json.dumps({'pi': math.pi}))\n```",
    "```javascript\nconsole.log([1, 2, 3].map(n => n * n).join())\n```",
    "```bash\necho $((6 * 7)) > answer; cat answer\n```",
    "```bash\nfor n in 1 2 3; do echo $n; sleep 0.1; done\n```",
]
# Programs and calls that fail. The model gets the error as a tool result, and the job succeeds.
MISBEHAVIOUR = [
    "```python\nwhile True: pass\n```",
    "```python\nx = 'a' * 10**10\n```",
    "```python\nimport os\n```",
    "```python\nraise SystemExit(3)\n```",
    "```python\nprint('x' * 10**7)\n```",
    "```javascript\nwhile (true) {}\n```",
    "```javascript\nconst all = []; while (true) all.push(new Array(1e6).fill(1))\n```",
    "```javascript\nthrow new Error('on purpose')\n```",
    "```bash\nfor n in $(seq 20); do sleep 300 & done; setsid sleep 300 & echo begun\n```",
    "```bash\nyes | head -c 5000000\n```",
    "```bash\nmkdir -p a/b/c; dd if=/dev/zero of=a/b/c/full bs=64k count=64 2>/dev/null; kill -9 $$\n```",
    'tool: bash {"command": "trap \'\' TERM; sleep 300", "timeout": 1}',
    'tool: execute_python {"code": "import os, signal\\nos.kill(os.getppid(), signal.SIGKILL)", "strictness": "lenient"}',
    'tool: execute_python {"code": "import threading, time\\nfor n in range(8): threading.Thread(target=time.sleep, '
    'args=(300,), daemon=True).start()\\nopen(\'left\', \'w\').write(\'x\' * 10**6)\\nprint(1)", "strictness": "lenient"}',
    'tool: execute_javascript {"code": "while (true) {}", "strictness": "strict"}',
    'tool: no_such_tool {"x": 1}',
]
CALLS = [
    'tool: calculator {"expression": "2**64 + 17*23"}',
    'tool: calculator {"expression": "1/7"}\ntool: text_process {"operation": "upper", "text": "x"}',
    'tool: json_process {"json_string": "{\\"a\\": [1, 2]}", "operation": "format"}\ntool: get_weather {"city": "Berlin"}',
]


class Client:
    """One client with its own random numbers."""

    def __init__(self, server, ledger, stop, hook, seed):
        self.server, self.ledger, self.stop, self.hook = server, ledger, stop, hook
        self.dice = random.Random(seed)

    def run(self):
        tasks = [(30, self.call), (20, self.stream), (12, self.program), (8, self.misbehave), (8, self.converse),
                 (6, self.cancel), (5, self.fail), (5, self.wait), (3, self.webhook), (2, self.batch), (1, self.schedule)]
        choices, weights = [task for _, task in tasks], [weight for weight, _ in tasks]
        while not self.stop.is_set():
            task = self.dice.choices(choices, weights)[0]
            try:
                task()
                self.ledger.count(f"tasks: {task.__name__}")
            except CheckFailed as failure:
                self.ledger.add_violation(f"{task.__name__}: {failure}")
            except Exception as error:  # a defect of this program must be visible and not only end one client
                self.ledger.add_violation(f"{task.__name__}: {type(error).__name__}: {error}")
            time.sleep(self.dice.random() * 0.2)

    # Tasks

    def call(self):
        self.follow(self.submit("call", self.dice.choice(CALLS)))

    def stream(self):
        words, every = self.dice.randrange(20, 150), self.dice.randrange(1, 40)
        self.follow(self.submit("stream", f"stream: {words} words, {every} ms", thinking=self.dice.random() < 0.3))

    def program(self):
        self.follow(self.submit("program", self.dice.choice(PROGRAMS)))

    def misbehave(self):
        self.follow(self.submit("misbehaviour", self.dice.choice(MISBEHAVIOUR)))

    def converse(self):
        conversation = f"soak-{self.dice.randrange(CONVERSATIONS)}"
        jobs = [self.submit("turn", f"turn {turn}", conversation_id=conversation) for turn in range(3)]
        for job in jobs:
            self.follow(job)

    def cancel(self):
        text = self.dice.choice(["stream: 2000 words, 50 ms", "```bash\nsleep 300\n```", "```python\nwhile True: pass\n```"])
        job = self.submit("cancelled", text)
        self.server.frames(job, 0, self.dice.randrange(1, 4), timeout=5)
        self.request_until_answered("POST", f"/v1/jobs/{job}/cancel")
        # The job may have succeeded if its program ended first.
        self.follow(job, ("cancelled", "succeeded"))

    def fail(self):
        self.follow(self.submit("timeout", "stream: 500 words, 40 ms", timeout_s=1), ("failed",))

    def wait(self):
        """Keeps its request open until the job has ended."""
        status, body = self.request_until_answered("POST", "/v1/jobs?wait=30", json.dumps({"input": "hello"}), key=self.key())
        job = json.loads(body)["id"]
        self.ledger.accept(job, "wait")
        self.follow(job)

    def webhook(self):
        job = self.submit("webhook", "report this", webhook_url=self.hook)
        self.follow(job)
        until = time.monotonic() + 60
        while job not in self.ledger.hooks and time.monotonic() < until:
            time.sleep(0.2)
        if job not in self.ledger.hooks:
            raise CheckFailed(f"the webhook of {job} did not arrive in 60 s")
        self.ledger.count("webhooks")

    def batch(self):
        names = [f"line-{number}" for number in range(self.dice.randrange(5, 30))]
        inputs = CALLS + PROGRAMS + ["hello"]
        lines = [json.dumps({"custom_id": name, "body": {"input": self.dice.choice(inputs)}}) for name in names]
        path = f"/v1/batches?concurrency={self.dice.randrange(1, 6)}"
        status, body = self.request_until_answered("POST", path, "\n".join(lines) + "\n", "application/jsonl", key=self.key())
        batch, until = json.loads(body)["id"], time.monotonic() + TIMEOUT_S
        while True:
            row = json.loads(self.request_until_answered("GET", f"/v1/batches/{batch}?wait=5")[1])
            if row["status"] == "completed":
                break
            if time.monotonic() > until:
                raise CheckFailed(f"{batch} does not end: {row}")
        results = [json.loads(line) for line in self.request_until_answered("GET", f"/v1/batches/{batch}/results")[1].splitlines()]
        found = [result["custom_id"] for result in results]
        good = sum((result["response"] or {}).get("status_code") == 200 for result in results)
        if found != names or row["request_counts"] != {"total": len(names), "completed": len(names), "failed": 0} or good != len(names):
            raise CheckFailed(f"{batch}: expected {len(names)} good results, got {found}, {good} good, counts {row['request_counts']}")
        self.ledger.count("batch lines", len(names))

    def schedule(self):
        body = json.dumps({"every_s": 1, "job": {"input": "an occurrence"}})
        schedule = json.loads(self.request_until_answered("POST", "/v1/schedules", body)[1])["id"]
        until = time.monotonic() + 60
        while json.loads(self.request_until_answered("GET", f"/v1/schedules/{schedule}")[1]).get("runs", 0) < 2:
            if time.monotonic() > until:
                raise CheckFailed(f"{schedule} has not run twice in 60 s")
            time.sleep(0.5)
        self.request_until_answered("DELETE", f"/v1/schedules/{schedule}")

    # Steps of the tasks

    def key(self):
        return f"soak-{self.dice.randrange(10**15)}"

    def request_until_answered(self, method, path, body=None, kind="application/json", key=None):
        """Repeats a request after temporary refusals and after restarts until it has an answer."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            try:
                status, answer = self.server.request(method, path, body, kind, key=key)
                if status in (200, 201, 202, 204):
                    return status, answer
                if status not in (429, 503) and not (method == "DELETE" and status == 404):
                    raise CheckFailed(f"{method} {path} gets {status}: {answer[:300]!r}")
                if method == "DELETE":
                    return status, answer  # a restart lost the first answer
                self.ledger.count(f"temporary refusals: {status}")
            except INTERRUPTED:
                self.ledger.count("calls cut off")
            if time.monotonic() > until:
                raise CheckFailed(f"{method} {path} has no answer in {TIMEOUT_S} s")
            time.sleep(0.1)

    def submit(self, kind, text, **more):
        body = json.dumps({"input": text} | more)
        _, answer = self.request_until_answered("POST", "/v1/jobs", body, key=self.key())
        job = json.loads(answer)["id"]
        self.ledger.accept(job, kind)
        return job

    def follow(self, job, may_end=("succeeded",)):
        """Reads the stream with disconnects until it ends. Compares it with the whole log and the job."""
        seen, until = [], time.monotonic() + TIMEOUT_S
        while not seen or seen[-1][1] not in TERMINAL:
            after = len(seen)
            frames = self.falsify(self.server.frames(job, after, self.dice.choice([1, 2, 5, 20, None, None])))
            wrong = join(seen, frames, after)
            if wrong:
                raise CheckFailed(f"{job}: {wrong}")
            self.ledger.count("events read", len(frames))
            self.ledger.count("streams resumed", after > 0)
            if time.monotonic() > until:
                raise CheckFailed(f"{job} does not end: {seen[-1:]}")
            if not frames:
                time.sleep(0.1)
        self.compare(job, seen, until)
        row = json.loads(self.request_until_answered("GET", f"/v1/jobs/{job}")[1])
        if row["status"] not in ENDED or row["status"] not in may_end or (row["status"] == "succeeded") != (seen[-1][1] == "done"):
            raise CheckFailed(f"{job} is {row['status']}, expected one of {may_end}; last event {seen[-1]}, error {row.get('error')}")
        self.ledger.count(f"jobs {row['status']}")
        self.ledger.count("jobs of more than one attempt", row.get("attempt", 1) > 1)
        self.ledger.end(job)

    def compare(self, job, seen, until):
        """Reads the log again from its first event. It must be the same, complete, and have one terminal event."""
        while True:
            again = self.server.frames(job, 0)
            if again and again[-1][1] in TERMINAL:
                break
            if time.monotonic() > until:
                raise CheckFailed(f"a second stream of {job} does not end")
            time.sleep(0.1)
        if again != seen:
            raise CheckFailed(f"{job} had {len(seen)} events and now has {len(again)}: {seen[-2:]} {again[-2:]}")
        if sum(name in TERMINAL for _, name, _ in seen) != 1:
            raise CheckFailed(f"{job} does not have exactly one terminal event")
        for wrong in faults(seen):
            raise CheckFailed(f"{job}: {wrong}")

    def falsify(self, frames):
        """Falsifies the received frames if a control requests it."""
        if len(frames) < 3 or not self.ledger.control:
            return frames
        if self.ledger.take_control("lost"):
            return frames[:1] + frames[2:]
        if self.ledger.take_control("repeated"):
            return frames[:2] + frames[1:]
        if self.ledger.take_control("reordered"):
            return frames[:1] + [(frames[1][0], *frames[2][1:]), (frames[2][0], *frames[1][1:])] + frames[3:]
        return frames


class CheckFailed(Exception):
    """The server did not do what it must."""
