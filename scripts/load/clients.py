"""The clients of scripts/crash-loop and scripts/cluster-loop: random requests, and a history of the answers. A call
that a crash interrupted proves nothing."""
import http.client, json, random, threading, time

from frames import join
from server import INTERRUPTED, ENDED
from verdict import Verdict


class History(Verdict):
    """The answers that the clients received so far."""

    def __init__(self):
        super().__init__()
        self.jobs = {}      # id -> {"events": [...], "ended": status, "retries": count}
        self.batches = {}   # id -> {"names": custom_ids, "ended": [in order], "cancelled": bool}
        self.keys = {}      # idempotency key -> {"body": request body, "answers": job ids}
        self.schedules = {} # id -> the mark in the metadata of its jobs
        self.may_act = threading.Event()  # clients wait while it is not set
        self.may_act.set()

    def accept(self, job):
        with self.lock:
            if job in self.jobs:
                return
            self.jobs[job] = {"events": [], "ended": None, "retries": 0}
        self.count("jobs accepted")

    def some_job(self, dice, newest=40):
        with self.lock:
            return dice.choice(list(self.jobs)[-newest:]) if self.jobs else None

    def add_frames(self, job, frames, after):
        """Joins the frames that a stream returned after a cursor with the earlier ones."""
        with self.lock:
            wrong = join(self.jobs[job]["events"], frames, after)
            if wrong:
                self.violations.append(f"{job}: {wrong}")


def random_job(dice):
    """A random job."""
    kind = dice.randrange(6)
    if kind == 0:
        text = f"stream: {dice.randrange(5, 60)} words, {dice.randrange(1, 60)} ms"
    elif kind == 1:
        text = 'tool: calculator {"expression": "17*23"}\ntool: text_process {"operation": "upper", "text": "x"}'
    elif kind == 2:
        text = f"```python\nprint(sum(range({dice.randrange(1000)})))\n```"
    elif kind == 3:
        text = "```bash\nsleep 0.%d; echo done\n```" % dice.randrange(1, 9)
    else:
        text = f"hello {dice.randrange(10**9)}"
    job = {"input": text, "priority": dice.choice([4, 5, 5, 5, 6]), "max_attempts": dice.randrange(1, 4)}
    if kind == 0 and dice.random() < 0.5:
        job |= {"input": "stream: 90 words, 40 ms", "timeout_s": 1, "max_attempts": dice.randrange(1, 3)}  # fails by timeout
    if dice.random() < 0.3:
        job["conversation_id"] = f"chat-{dice.randrange(8)}"
    if dice.random() < 0.1:
        job["run_at"] = int(time.time()) + dice.randrange(3)
    return job


def start_clients(server, history, stop, seed, number, more=()):
    """Starts threads that run random actions, those of `more` (weight, action) as well."""
    actions = [(30, submit), (10, submit_once), (5, cancel), (4, retry), (3, submit_batch), (6, read_batch),
               (1, cancel_batch), (1, submit_schedule), (25, read), (15, check_status), *more]
    threads = [threading.Thread(target=run_client, args=(server, history, stop, f"{seed}-{n}", actions), daemon=True)
               for n in range(number)]
    for thread in threads:
        thread.start()
    return threads


def run_client(server, history, stop, seed, actions):
    """Runs random actions until stopped. A call that a crash interrupted proves nothing."""
    dice = random.Random(seed)
    weights = [weight for weight, _ in actions]
    while not stop.is_set():
        history.may_act.wait()
        _, action = dice.choices(actions, weights)[0]
        try:
            action(server, history, dice)
        except INTERRUPTED:
            history.count("calls cut off")
            time.sleep(0.05)
        time.sleep(dice.random() * 0.03)


def report_refusal(history, what, status, body):
    if status not in (429, 503, 507):
        history.add_violation(f"{what} got {status}: {body[:300]!r}")


def submit(server, history, dice):
    status, body = server.request("POST", "/v1/jobs", json.dumps(random_job(dice)))
    if status == 202:
        history.accept(json.loads(body)["id"])
    else:
        report_refusal(history, "a submission", status, body)


def submit_once(server, history, dice):
    """Submits with one of a few idempotency keys, each with one body. All submissions of a key must make one job."""
    with history.lock:
        if not history.keys or dice.random() < 0.3:
            body = json.dumps(random_job(dice) | {"run_at": None})
            history.keys[f"key-{dice.randrange(10**9)}"] = {"body": body, "answers": set()}
        key = dice.choice(list(history.keys)[-6:])
        known = history.keys[key]
    status, body = server.request("POST", "/v1/jobs", known["body"], key=key)
    if status not in (200, 202):  # 200: the job has ended
        return report_refusal(history, "a submission with a key", status, body)
    job = json.loads(body)["id"]
    history.accept(job)
    with history.lock:
        history.counts["keys repeated"] = history.counts.get("keys repeated", 0) + bool(known["answers"])
        known["answers"].add(job)
        if len(known["answers"]) > 1:
            history.violations.append(f"{key} made more than one job: {known['answers']}")


def cancel(server, history, dice):
    job = history.some_job(dice)
    if job:
        status, _ = server.request("POST", f"/v1/jobs/{job}/cancel")
        history.count("cancels acknowledged", status in (200, 202))


def retry(server, history, dice):
    """Retries a failed job. After a retry, events may follow the terminal event."""
    with history.lock:
        failed = [job for job, known in history.jobs.items() if known["ended"] == "failed"]
        job = dice.choice(failed) if failed else None
        if job:
            history.jobs[job]["retries"] += 1
            history.jobs[job]["ended"] = None
    if not job:
        return
    status, body = server.request("POST", f"/v1/jobs/{job}/retry")
    history.count("retries acknowledged", status == 202)
    if status not in (202, 409):
        report_refusal(history, "a retry", status, body)


def check_status(server, history, dice):
    job = history.some_job(dice)
    if not job:
        return
    with history.lock:
        before = dict(history.jobs[job])
    status, body = server.request("GET", f"/v1/jobs/{job}")
    record_status(history, job, status, body, before)


def submit_schedule(server, history, dice):
    if len(history.schedules) >= 4:
        return
    mark = str(dice.randrange(10**9))
    body = {"every_s": dice.randrange(1, 4), "job": {"input": "an occurrence", "metadata": {"mark": mark}}}
    status, answer = server.request("POST", "/v1/schedules", json.dumps(body))
    if status != 201:
        return report_refusal(history, "a schedule", status, answer)
    with history.lock:
        history.schedules[json.loads(answer)["id"]] = mark


def read(server, history, dice):
    """Resumes where the last reader stopped or at a random earlier event, and reads some frames."""
    job = history.some_job(dice)
    if not job:
        return
    seen = len(history.jobs[job]["events"])
    after = seen if dice.random() < 0.6 else dice.randrange(seen + 1)
    frames = server.frames(job, after, dice.choice([1, 3, 10, 50, None]))
    history.add_frames(job, frames, after)
    history.count("events read", len(frames))
    history.count("streams resumed", after > 0)


def record_status(history, job, status, body, before):
    """Compares an answer with what was known before the request: answers of a node that was stopped come late."""
    if status == 503:
        return history.count("reads refused for a while")
    if status != 200:
        return history.add_violation(f"{job} was accepted, but a request for it gets {status}: {body[:300]!r}")
    now = json.loads(body)["status"]
    with history.lock:
        known = history.jobs[job]
        if known["retries"] != before["retries"]:
            return
        if before["ended"] not in (None, now):
            history.violations.append(f"{job} ended as {before['ended']} and is now {now}")
        if now in ENDED:
            known["ended"] = now


# Batches

def submit_batch(server, history, dice):
    """Submits JSON lines. An accepted batch must return one result for each line."""
    names = [f"line-{dice.randrange(10**9)}-{number}" for number in range(dice.randrange(2, 20))]
    lines = [json.dumps({"custom_id": name, "body": random_job(dice)}) for name in names]
    path = f"/v1/batches?concurrency={dice.randrange(1, 5)}"
    status, body = server.request("POST", path, "\n".join(lines) + "\n", "application/jsonl")
    if status != 202:
        return report_refusal(history, "a batch", status, body)
    with history.lock:
        history.batches[json.loads(body)["id"]] = {"names": names, "ended": [], "cancelled": False}
    history.count("batches accepted")
    history.count("batch lines accepted", len(names))


def cancel_batch(server, history, dice):
    with history.lock:
        batch = dice.choice(list(history.batches)) if history.batches else None
    if batch:
        with history.lock:
            history.batches[batch]["cancelled"] = True
        status, _ = server.request("POST", f"/v1/batches/{batch}/cancel")
        history.count("batch cancels acknowledged", status == 200)


def read_batch(server, history, dice):
    """Follows a batch from a random known result until a kill or a time-out."""
    with history.lock:
        batch = dice.choice(list(history.batches)[-4:]) if history.batches else None
        after = len(history.batches[batch]["ended"]) if batch else 0
    if batch:
        record_results(history, batch, follow(server, batch, dice.randrange(after + 1), 2))


def follow(server, batch, after, timeout):
    """The start position and the complete lines of a stream of results."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    found = []
    try:
        connection.request("GET", f"/v1/batches/{batch}/results?follow=true&after={after}")
        answer = connection.getresponse()
        while answer.status == 200:
            line = answer.readline()
            if not line.endswith(b"\n"):
                break
            found.append(json.loads(line)["custom_id"])
    except INTERRUPTED:
        pass
    finally:
        connection.close()
    return after, found


def record_results(history, batch, followed):
    after, found = followed
    history.count("batch ends followed", len(found))
    with history.lock:
        ended = history.batches[batch]["ended"]
        for number, name in enumerate(found, after):
            if number < len(ended) and ended[number] != name:
                history.violations.append(f"{batch}: result {number} was {ended[number]} and is now {name}")
                return
            if number == len(ended):
                ended.append(name)
