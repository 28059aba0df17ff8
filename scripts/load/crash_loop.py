"""The program of scripts/crash-loop: a real server under load, killed with SIGKILL at random moments.

It checks from outside, over all restarts:
- every job that got its 202 exists and ends with exactly one terminal event;
- every event that a reader saw is still there, unchanged;
- a resumed stream has no gap: ids rise by one, and delta offsets join;
- a tool call has one result;
- a key that was sent many times, also across kills, made one job;
- an accepted batch has one result for each line, in the same order of ends;
- an occurrence of a schedule made one job.

The exit status is 1, with details, if anything is wrong. `--control NAME` breaks one of these in this program's
view, and the program must notice.
"""
import argparse, http.client, json, os, random, sys, tempfile, threading, time

from frames import faults, join
from server import BROKEN, ENDED, TERMINAL, Server
from verdict import Verdict


class World(Verdict):
    """What the clients have seen so far."""

    def __init__(self):
        super().__init__()
        self.jobs = {}      # id -> {"events": [...], "cancelled": bool, "ended": status}
        self.batches = {}   # id -> {"names": custom_ids, "ended": [in order], "cancelled": bool, "retried": bool}
        self.keys = {}      # key -> {"body": what is posted with it, "answers": ids}
        self.schedules = {} # id -> the mark that its jobs carry

    def accept(self, job):
        with self.lock:
            if job in self.jobs:
                return
            self.jobs[job] = {"events": [], "ended": None, "retries": 0}
        self.count("jobs accepted")

    def some_job(self, dice, newest=40):
        with self.lock:
            return dice.choice(list(self.jobs)[-newest:]) if self.jobs else None

    def saw(self, job, frames, after):
        """Joins the frames that a stream returned after a cursor with the earlier ones."""
        with self.lock:
            wrong = join(self.jobs[job]["events"], frames, after)
            if wrong:
                self.violations.append(f"{job}: {wrong}")


def wish(dice):
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
        job |= {"input": "stream: 90 words, 40 ms", "timeout_s": 1, "max_attempts": dice.randrange(1, 3)}  # it fails
    if dice.random() < 0.3:
        job["conversation_id"] = f"chat-{dice.randrange(8)}"
    if dice.random() < 0.1:
        job["run_at"] = int(time.time()) + dice.randrange(3)
    return job


def client(server, world, stop, seed):
    """Submits, cancels and reads with cuts until stopped. A call that the crash cut off proves nothing."""
    dice = random.Random(seed)
    acts = [(0.30, submit), (0.40, submit_once), (0.45, cancel), (0.49, retry), (0.52, submit_batch),
            (0.58, read_batch), (0.59, cancel_batch), (0.60, submit_schedule), (0.85, read), (1.0, look)]
    while not stop.is_set():
        rolled = dice.random()
        try:
            next(act for below, act in acts if rolled < below)(server, world, dice)
        except BROKEN:
            world.count("calls cut off")
            time.sleep(0.05)
        time.sleep(dice.random() * 0.03)


def refused(world, what, status, body):
    if status not in (429, 503, 507):
        world.blame(f"{what} got {status}: {body[:300]!r}")


def submit(server, world, dice):
    status, body = server.ask("POST", "/v1/jobs", json.dumps(wish(dice)))
    if status == 202:
        world.accept(json.loads(body)["id"])
    else:
        refused(world, "a submission", status, body)


def submit_once(server, world, dice):
    """Sends one of a few keys, each with one body. All submissions of a key must be one job."""
    with world.lock:
        if not world.keys or dice.random() < 0.3:
            world.keys[f"key-{dice.randrange(10**9)}"] = {"body": json.dumps(wish(dice) | {"run_at": None}), "answers": set()}
        key = dice.choice(list(world.keys)[-6:])
        known = world.keys[key]
    status, body = server.ask("POST", "/v1/jobs", known["body"], key=key)
    if status not in (200, 202):  # 200: it has ended since
        return refused(world, "a submission with a key", status, body)
    job = json.loads(body)["id"]
    world.accept(job)
    with world.lock:
        world.counts["keys repeated"] = world.counts.get("keys repeated", 0) + bool(known["answers"])
        known["answers"].add(job)
        if len(known["answers"]) > 1:
            world.violations.append(f"{key} made more than one job: {known['answers']}")


def cancel(server, world, dice):
    job = world.some_job(dice)
    if job:
        status, _ = server.ask("POST", f"/v1/jobs/{job}/cancel")
        world.count("cancels acknowledged", status in (200, 202))


def retry(server, world, dice):
    """Retries a failed job. From then on events may follow its end."""
    with world.lock:
        failed = [job for job, known in world.jobs.items() if known["ended"] == "failed"]
        job = dice.choice(failed) if failed else None
        if job:
            world.jobs[job]["retries"] += 1
            world.jobs[job]["ended"] = None
    if not job:
        return
    status, body = server.ask("POST", f"/v1/jobs/{job}/retry")
    world.count("retries acknowledged", status == 202)
    if status not in (202, 409):
        refused(world, "a retry", status, body)


def look(server, world, dice):
    job = world.some_job(dice)
    if not job:
        return
    with world.lock:
        retries = world.jobs[job]["retries"]
    status, body = server.ask("GET", f"/v1/jobs/{job}")
    note(world, job, status, body, retries)


def submit_schedule(server, world, dice):
    if len(world.schedules) >= 4:
        return
    mark = str(dice.randrange(10**9))
    body = {"every_s": dice.randrange(1, 4), "job": {"input": "an occurrence", "metadata": {"mark": mark}}}
    status, answer = server.ask("POST", "/v1/schedules", json.dumps(body))
    if status != 201:
        return refused(world, "a schedule", status, answer)
    with world.lock:
        world.schedules[json.loads(answer)["id"]] = mark


def read(server, world, dice):
    """Resumes where the last reader stopped, or anywhere before, and stops somewhere."""
    job = world.some_job(dice)
    if not job:
        return
    seen = len(world.jobs[job]["events"])
    after = seen if dice.random() < 0.6 else dice.randrange(seen + 1)
    frames = server.frames(job, after, dice.choice([1, 3, 10, 50, None]))
    world.saw(job, frames, after)
    world.count("events read", len(frames))
    world.count("streams resumed", after > 0)


def note(world, job, status, body, retries):
    if status != 200:
        return world.blame(f"{job} was accepted and is answered with {status}")
    now = json.loads(body)["status"]
    with world.lock:
        known = world.jobs[job]
        if known["retries"] != retries:
            return
        if known["ended"] not in (None, now):
            world.violations.append(f"{job} had ended {known['ended']}, is {now}")
        if now in ENDED:
            known["ended"] = now


# batches

def submit_batch(server, world, dice):
    """`POST /v1/batches` with JSON lines. An accepted batch must return one result for each line."""
    names = [f"line-{dice.randrange(10**9)}-{number}" for number in range(dice.randrange(2, 20))]
    lines = [json.dumps({"custom_id": name, "body": wish(dice)}) for name in names]
    path = f"/v1/batches?concurrency={dice.randrange(1, 5)}"
    status, body = server.ask("POST", path, "\n".join(lines) + "\n", "application/jsonl")
    if status != 202:
        return refused(world, "a batch", status, body)
    with world.lock:
        world.batches[json.loads(body)["id"]] = {"names": names, "ended": [], "cancelled": False}
    world.count("batches accepted")
    world.count("batch lines accepted", len(names))


def cancel_batch(server, world, dice):
    with world.lock:
        batch = dice.choice(list(world.batches)) if world.batches else None
    if batch:
        with world.lock:
            world.batches[batch]["cancelled"] = True
        status, _ = server.ask("POST", f"/v1/batches/{batch}/cancel")
        world.count("batch cancels acknowledged", status == 200)


def read_batch(server, world, dice):
    """Follows a batch from where the last reader stopped, until the kill or a time-out."""
    with world.lock:
        batch = dice.choice(list(world.batches)[-4:]) if world.batches else None
        after = len(world.batches[batch]["ended"]) if batch else 0
    if batch:
        saw_lines(world, batch, follow(server, batch, dice.randrange(after + 1), 2))


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
    except BROKEN:
        pass
    finally:
        connection.close()
    return after, found


def saw_lines(world, batch, told):
    after, found = told
    world.count("batch ends followed", len(found))
    with world.lock:
        ended = world.batches[batch]["ended"]
        for number, name in enumerate(found, after):
            if number < len(ended) and ended[number] != name:
                world.violations.append(f"{batch}: end {number} was {ended[number]}, is {name}")
                return
            if number == len(ended):
                ended.append(name)


def check_batch(server, world, batch, known, deadline):
    names = known["names"]
    while True:
        status, body = server.ask("GET", f"/v1/batches/{batch}?wait=20")
        if status != 200:
            return world.blame(f"{batch} was accepted and is answered with {status}")
        row = json.loads(body)
        if row["status"] in ("completed", "cancelled"):
            break
        if time.monotonic() > deadline:
            return world.blame(f"{batch} never ends: {body[:500]!r}")
    world.count("batches " + row["status"])
    if row["status"] == "cancelled" and not known["cancelled"]:
        world.blame(f"{batch} is cancelled, and nobody asked for that")
    status, body = server.ask("GET", f"/v1/batches/{batch}/results")
    results = [json.loads(line) for line in body.splitlines() if line.strip()]
    found = [result["custom_id"] for result in results]
    if status != 200 or found != names:
        world.blame(f"{batch} owes {names} and has {found} (status {status})")
    counts, ids = row["request_counts"], [result["id"] for result in results]
    good = sum((result["response"] or {}).get("status_code") == 200 for result in results)
    if counts != {"total": len(names), "completed": good, "failed": len(names) - good} or len(set(ids)) != len(ids):
        world.blame(f"{batch} counts {counts} with {good} good results of {len(names)}: {ids}")
    saw_lines(world, batch, follow(server, batch, 0, 30))
    if sorted(known["ended"]) != sorted(names):
        world.blame(f"{batch} told the ends of {sorted(known['ended'])} and owes {sorted(names)}")
    for result in results:
        job = (result["response"] or {}).get("body")
        if job and job["status"] not in ENDED:
            world.blame(f"{batch} has ended and {result['custom_id']} has not: {job}")


# schedules

def every_job(server):
    """All jobs, page by page."""
    jobs, cursor = [], None
    while True:
        status, body = server.ask("GET", "/v1/jobs?limit=100" + (f"&cursor={cursor}" if cursor else ""))
        page = json.loads(body)
        jobs += page["data"]
        cursor = page.get("next_cursor")
        if not cursor:
            return jobs


def runs_of(server, world):
    """The number of runs that each schedule reports."""
    runs = {}
    for schedule in world.schedules:
        status, body = server.ask("GET", f"/v1/schedules/{schedule}")
        if status != 200:
            world.blame(f"{schedule} was accepted and is answered with {status}")
        runs[schedule] = json.loads(body).get("runs", 0)
    return runs


def check_schedules(server, world):
    """Every occurrence made one job. The schedule's count is read before and after counting the jobs."""
    before = runs_of(server, world)
    jobs = [job["metadata"].get("mark") for job in every_job(server)]
    after = runs_of(server, world)
    for schedule, mark in world.schedules.items():
        made = jobs.count(mark)
        world.count("occurrences", made)
        if not before[schedule] <= made <= after[schedule]:
            world.blame(f"{schedule} has fired {before[schedule]} to {after[schedule]} times and made {made} jobs")
        server.ask("DELETE", f"/v1/schedules/{schedule}")


# at the end

def check_job(server, world, job, deadline):
    while True:
        status, body = server.ask("GET", f"/v1/jobs/{job}?wait=20")
        note(world, job, status, body, world.jobs[job]["retries"])
        row = json.loads(body) if status == 200 else {}
        if status != 200 or row["status"] in ENDED:
            break
        if time.monotonic() > deadline:
            return world.blame(f"{job} never ends: {row}")
    frames = server.frames(job, 0)
    world.saw(job, frames, 0)
    seen = world.jobs[job]["events"]
    ends = [place for place, frame in enumerate(frames) if frame[1] in TERMINAL]
    if len(frames) != len(seen) or not ends or ends[-1] != len(frames) - 1:
        return world.blame(f"{job}: {len(seen)} events seen, {len(frames)} there, ends {ends}")
    # An end that is not the last one is a failure before a retry.
    again = [(frames[place][1], frames[place + 1][2].get("status")) for place in ends[:-1]]
    if len(again) > world.jobs[job]["retries"] or any(pair != ("error", "queued") for pair in again):
        world.blame(f"{job} was retried {world.jobs[job]['retries']} times and went on after {again}")
    world.count("jobs that went on after a retry", bool(again))
    if (frames[-1][1] == "done") != (row.get("status") == "succeeded"):
        world.blame(f"{job} is {row.get('status')} and ends with {frames[-1]}")
    for wrong in faults(frames):
        world.blame(f"{job}: {wrong}")
    code = (row.get("error") or {}).get("code")
    world.count("jobs " + row.get("status", "lost") + (f": {code}" if row.get("status") == "failed" else ""))
    world.count("jobs resumed", row.get("attempt", 0) > 1)


def check_keys(server, world):
    """Sends each key once more. It must still return its one job."""
    for key, known in world.keys.items():
        status, body = server.ask("POST", "/v1/jobs", known["body"], key=key)
        known["answers"].add(json.loads(body).get("id", status))
        if len(known["answers"]) > 1:
            world.blame(f"{key} made more than one job: {known['answers']}")
        elif status in (200, 202):
            world.accept(*known["answers"])


# controls

def forget_job(world):
    """The server lost a job: this program knows one that the server does not have."""
    job = list(world.jobs)[-1]
    world.jobs[job[:-1] + ("1" if job[-1] == "0" else "0")] = dict(world.jobs[job], events=[])


def change_event(world):
    """An event changed."""
    known = next(known for known in world.jobs.values() if known["events"])
    known["events"][0] = (1, "status", {"status": "elsewhere"})


def forget_line(world):
    """A line of a batch has no result."""
    next(iter(world.batches.values()))["names"].append("a line that nobody sent")


def forget_key(world):
    """A key made a second job: this program remembers another one."""
    for known in world.keys.values():
        known["answers"].add("job_of_another_life")


def fire_twice(world):
    """An occurrence made two jobs: two schedules count as one."""
    for schedule in world.schedules:
        world.schedules[schedule] = "no such mark"


CONTROLS = {"job": forget_job, "event": change_event, "line": forget_line, "key": forget_key, "schedule": fire_twice}


def options():
    parser = argparse.ArgumentParser(prog="scripts/crash-loop", description=__doc__.split("\n")[0])
    parser.add_argument("kills", type=int, nargs="?", default=20, metavar="N", help="how often to kill (20)")
    parser.add_argument("--seconds-between", type=float, default=2.0, metavar="S", help="mean time between kills (2)")
    parser.add_argument("--seed", type=int, default=None, help="of the load and the moments")
    parser.add_argument("--clients", type=int, default=6, help="threads that load the server (6)")
    parser.add_argument("--control", choices=sorted(CONTROLS), help="break this in the own view; has to be caught")
    parser.add_argument("--binary", default="target/release/nanoclaw", help="the server")
    return parser.parse_args()


def main():
    wanted = options()
    seed = wanted.seed if wanted.seed is not None else random.randrange(10**6)
    dice, world, stop = random.Random(seed), World(), threading.Event()
    print(f"seed {seed}, {wanted.kills} kills", flush=True)
    with tempfile.TemporaryDirectory(prefix="nanoclaw-crash-loop-") as directory:
        server = Server(os.path.abspath(wanted.binary), directory)
        server.start()
        try:
            run(server, world, stop, wanted, seed, dice)
        finally:
            stop.set()
            server.kill()
        if world.violations:
            with open(os.path.join(directory, "log"), errors="replace") as log:
                print("--- the end of the server's log\n" + "".join(log.readlines()[-40:]), file=sys.stderr)
    report(world, server, wanted)


def run(server, world, stop, wanted, seed, dice):
    threads = [
        threading.Thread(target=client, args=(server, world, stop, f"{seed}-{number}"), daemon=True)
        for number in range(wanted.clients)
    ]
    for thread in threads:
        thread.start()
    for kill in range(wanted.kills):
        time.sleep(wanted.seconds_between * (0.1 + 1.8 * dice.random()))
        server.kill()
        server.start()
        print(f"killed {kill + 1}, started in {server.starts[-1]:.2f} s, {len(world.jobs)} jobs", flush=True)
    time.sleep(wanted.seconds_between)
    stop.set()
    for thread in threads:
        thread.join(120)
    if wanted.control:
        CONTROLS[wanted.control](world)
    check_schedules(server, world)
    check_keys(server, world)
    deadline = time.monotonic() + 120 + len(world.jobs)
    for job in list(world.jobs):
        check_job(server, world, job, deadline)
    for batch, known in world.batches.items():
        check_batch(server, world, batch, known, deadline)
    status, body = server.ask("GET", "/v1/jobs?status=running")
    left = json.loads(body)["data"]
    if left:
        world.blame(f"still running at the end: {left}")


def report(world, server, wanted):
    rows = {"kills": wanted.kills, "slowest start, s": f"{max(server.starts):.2f}", **world.counts}
    rows["violations"] = len(world.violations)
    for name, value in rows.items():
        print(f"{name:<32}{value:>8}")
    if world.violations:
        print("\n".join(["", *world.violations[:20]]), file=sys.stderr)
        sys.exit(1)


main()
