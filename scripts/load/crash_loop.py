"""The program of scripts/crash-loop: a real server under load, killed with SIGKILL at random moments.

It checks as a client, over all restarts:
- every job that got a 202 exists and ends with exactly one terminal event;
- every event that a reader received still exists, unchanged;
- a resumed stream has no gap: ids rise by one, and delta offsets continue;
- a tool call has one result;
- an idempotency key that was sent many times, also across kills, made one job;
- an accepted batch has one result for each line, always in the same order;
- an occurrence of a schedule made one job.

The exit status is 1, with details, if a check fails. `--control NAME` falsifies one of this program's own records,
so that the check must fail.
"""
import argparse, http.client, json, os, random, sys, tempfile, threading, time

from frames import faults, join
from server import INTERRUPTED, ENDED, TERMINAL, Server
from verdict import Verdict


class History(Verdict):
    """The answers that the clients received so far."""

    def __init__(self):
        super().__init__()
        self.jobs = {}      # id -> {"events": [...], "ended": status, "retries": count}
        self.batches = {}   # id -> {"names": custom_ids, "ended": [in order], "cancelled": bool}
        self.keys = {}      # idempotency key -> {"body": request body, "answers": job ids}
        self.schedules = {} # id -> the mark in the metadata of its jobs

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


def client(server, history, stop, seed):
    """Runs random actions until stopped. A call that a crash interrupted proves nothing."""
    dice = random.Random(seed)
    actions = [(0.30, submit), (0.40, submit_once), (0.45, cancel), (0.49, retry), (0.52, submit_batch),
               (0.58, read_batch), (0.59, cancel_batch), (0.60, submit_schedule), (0.85, read), (1.0, check_status)]
    while not stop.is_set():
        number = dice.random()
        try:
            next(action for below, action in actions if number < below)(server, history, dice)
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
        retries = history.jobs[job]["retries"]
    status, body = server.request("GET", f"/v1/jobs/{job}")
    record_status(history, job, status, body, retries)


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


def record_status(history, job, status, body, retries):
    if status != 200:
        return history.add_violation(f"{job} was accepted, but a request for it gets {status}")
    now = json.loads(body)["status"]
    with history.lock:
        known = history.jobs[job]
        if known["retries"] != retries:
            return
        if known["ended"] not in (None, now):
            history.violations.append(f"{job} ended as {known['ended']} and is now {now}")
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


def check_batch(server, history, batch, known, deadline):
    names = known["names"]
    while True:
        status, body = server.request("GET", f"/v1/batches/{batch}?wait=20")
        if status != 200:
            return history.add_violation(f"{batch} was accepted, but a request for it gets {status}")
        row = json.loads(body)
        if row["status"] in ("completed", "cancelled"):
            break
        if time.monotonic() > deadline:
            return history.add_violation(f"{batch} does not end: {body[:500]!r}")
    history.count("batches " + row["status"])
    if row["status"] == "cancelled" and not known["cancelled"]:
        history.add_violation(f"{batch} is cancelled without a request to cancel it")
    status, body = server.request("GET", f"/v1/batches/{batch}/results")
    results = [json.loads(line) for line in body.splitlines() if line.strip()]
    found = [result["custom_id"] for result in results]
    if status != 200 or found != names:
        history.add_violation(f"{batch}: expected results {names}, got {found} (status {status})")
    counts, ids = row["request_counts"], [result["id"] for result in results]
    good = sum((result["response"] or {}).get("status_code") == 200 for result in results)
    if counts != {"total": len(names), "completed": good, "failed": len(names) - good} or len(set(ids)) != len(ids):
        history.add_violation(f"{batch}: wrong counts {counts} for {good} good results of {len(names)}: {ids}")
    record_results(history, batch, follow(server, batch, 0, 30))
    if sorted(known["ended"]) != sorted(names):
        history.add_violation(f"{batch}: expected the results {sorted(names)} in its stream, got {sorted(known['ended'])}")
    for result in results:
        job = (result["response"] or {}).get("body")
        if job and job["status"] not in ENDED:
            history.add_violation(f"{batch} has ended, but {result['custom_id']} has not: {job}")


# Schedules

def every_job(server):
    """All jobs, read page by page."""
    jobs, cursor = [], None
    while True:
        status, body = server.request("GET", "/v1/jobs?limit=100" + (f"&cursor={cursor}" if cursor else ""))
        page = json.loads(body)
        jobs += page["data"]
        cursor = page.get("next_cursor")
        if not cursor:
            return jobs


def runs_of(server, history):
    """The number of runs that each schedule reports."""
    runs = {}
    for schedule in history.schedules:
        status, body = server.request("GET", f"/v1/schedules/{schedule}")
        if status != 200:
            history.add_violation(f"{schedule} was accepted, but a request for it gets {status}")
        runs[schedule] = json.loads(body).get("runs", 0)
    return runs


def check_schedules(server, history):
    """Checks that every occurrence made one job. Reads the count of runs before and after it counts the jobs."""
    before = runs_of(server, history)
    jobs = [job["metadata"].get("mark") for job in every_job(server)]
    after = runs_of(server, history)
    for schedule, mark in history.schedules.items():
        made = jobs.count(mark)
        history.count("occurrences", made)
        if not before[schedule] <= made <= after[schedule]:
            history.add_violation(f"{schedule} reports {before[schedule]} to {after[schedule]} runs, but made {made} jobs")
        server.request("DELETE", f"/v1/schedules/{schedule}")


# Final checks

def check_job(server, history, job, deadline):
    while True:
        status, body = server.request("GET", f"/v1/jobs/{job}?wait=20")
        record_status(history, job, status, body, history.jobs[job]["retries"])
        row = json.loads(body) if status == 200 else {}
        if status != 200 or row["status"] in ENDED:
            break
        if time.monotonic() > deadline:
            return history.add_violation(f"{job} does not end: {row}")
    frames = server.frames(job, 0)
    history.add_frames(job, frames, 0)
    seen = history.jobs[job]["events"]
    ends = [place for place, frame in enumerate(frames) if frame[1] in TERMINAL]
    if len(frames) != len(seen) or not ends or ends[-1] != len(frames) - 1:
        return history.add_violation(f"{job}: {len(seen)} events received, {len(frames)} stored, terminal events {ends}")
    # A terminal event before the last one is a failure that was retried.
    again = [(frames[place][1], frames[place + 1][2].get("status")) for place in ends[:-1]]
    if len(again) > history.jobs[job]["retries"] or any(pair != ("error", "queued") for pair in again):
        history.add_violation(f"{job} was retried {history.jobs[job]['retries']} times, but continued after {again}")
    history.count("jobs continued after a retry", bool(again))
    if (frames[-1][1] == "done") != (row.get("status") == "succeeded"):
        history.add_violation(f"{job} is {row.get('status')}, but its last event is {frames[-1]}")
    for wrong in faults(frames):
        history.add_violation(f"{job}: {wrong}")
    code = (row.get("error") or {}).get("code")
    history.count("jobs " + row.get("status", "lost") + (f": {code}" if row.get("status") == "failed" else ""))
    history.count("jobs resumed", row.get("attempt", 0) > 1)


def check_keys(server, history):
    """Sends each idempotency key once more. It must still return the same job."""
    for key, known in history.keys.items():
        status, body = server.request("POST", "/v1/jobs", known["body"], key=key)
        known["answers"].add(json.loads(body).get("id", status))
        if len(known["answers"]) > 1:
            history.add_violation(f"{key} made more than one job: {known['answers']}")
        elif status in (200, 202):
            history.accept(*known["answers"])


# Controls

def add_lost_job(history):
    """Adds a job that the server does not have, as if the server had lost it."""
    job = list(history.jobs)[-1]
    history.jobs[job[:-1] + ("1" if job[-1] == "0" else "0")] = dict(history.jobs[job], events=[])


def change_event(history):
    """Changes a received event, as if the server had changed the stored one."""
    known = next(known for known in history.jobs.values() if known["events"])
    known["events"][0] = (1, "status", {"status": "elsewhere"})


def add_lost_line(history):
    """Adds a line to a batch, as if the server had lost its result."""
    next(iter(history.batches.values()))["names"].append("a line that was not sent")


def add_second_job(history):
    """Adds a second job to each key, as if the server had run a submission twice."""
    for known in history.keys.values():
        known["answers"].add("job_unknown")


def change_marks(history):
    """Changes the marks of the schedules, as if the server had lost their jobs."""
    for schedule in history.schedules:
        history.schedules[schedule] = "no such mark"


CONTROLS = {"job": add_lost_job, "event": change_event, "line": add_lost_line, "key": add_second_job, "schedule": change_marks}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/crash-loop", description=__doc__.split("\n")[0])
    parser.add_argument("kills", type=int, nargs="?", default=20, metavar="N", help="number of kills (20)")
    parser.add_argument("--seconds-between", type=float, default=2.0, metavar="S", help="mean time between kills (2)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the load and of the times of the kills")
    parser.add_argument("--clients", type=int, default=6, help="client threads (6)")
    parser.add_argument("--control", choices=sorted(CONTROLS), help="falsify this in the checker's records; the run must fail")
    parser.add_argument("--binary", default="target/release/nanoclaw", help="the server (target/release/nanoclaw)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    dice, history, stop = random.Random(seed), History(), threading.Event()
    print(f"seed {seed}, {arguments.kills} kills", flush=True)
    with tempfile.TemporaryDirectory(prefix="nanoclaw-crash-loop-") as directory:
        server = Server(os.path.abspath(arguments.binary), directory)
        server.start()
        try:
            run(server, history, stop, arguments, seed, dice)
        finally:
            stop.set()
            server.kill()
        if history.violations:
            with open(os.path.join(directory, "log"), errors="replace") as log:
                print("--- the last lines of the server's log\n" + "".join(log.readlines()[-40:]), file=sys.stderr)
    report(history, server, arguments)


def run(server, history, stop, arguments, seed, dice):
    threads = [
        threading.Thread(target=client, args=(server, history, stop, f"{seed}-{number}"), daemon=True)
        for number in range(arguments.clients)
    ]
    for thread in threads:
        thread.start()
    for kill in range(arguments.kills):
        time.sleep(arguments.seconds_between * (0.1 + 1.8 * dice.random()))
        server.kill()
        server.start()
        print(f"killed {kill + 1}, started in {server.starts[-1]:.2f} s, {len(history.jobs)} jobs", flush=True)
    time.sleep(arguments.seconds_between)
    stop.set()
    for thread in threads:
        thread.join(120)
    if arguments.control:
        CONTROLS[arguments.control](history)
    check_schedules(server, history)
    check_keys(server, history)
    deadline = time.monotonic() + 120 + len(history.jobs)
    for job in list(history.jobs):
        check_job(server, history, job, deadline)
    for batch, known in history.batches.items():
        check_batch(server, history, batch, known, deadline)
    status, body = server.request("GET", "/v1/jobs?status=running")
    running = json.loads(body)["data"]
    if running:
        history.add_violation(f"still running at the end: {running}")


def report(history, server, arguments):
    rows = {"kills": arguments.kills, "slowest start, s": f"{max(server.starts):.2f}", **history.counts}
    rows["violations"] = len(history.violations)
    for name, value in rows.items():
        print(f"{name:<32}{value:>8}")
    if history.violations:
        print("\n".join(["", *history.violations[:20]]), file=sys.stderr)
        sys.exit(1)


main()
