"""The program of scripts/crash-loop: a real server under load, killed with SIGKILL at random moments.

Checked from outside, over all restarts: every job that got its 202 exists and ends with exactly one terminal event; every
event that was seen is seen again, unchanged; a resumed stream has no hole (ids rise by one, delta offsets join); a call
has one result; every acknowledged line of a batch has one result. Exit status 1 with the details when anything is wrong.
"""
import argparse, http.client, json, os, random, signal, socket, subprocess, sys, tempfile, threading, time

TERMINAL = ("done", "error")
ENDED = ("succeeded", "failed", "cancelled")
BROKEN = (OSError, http.client.HTTPException, ValueError)


class World:
    """What the outside knows."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}      # id -> {"events": [...], "cancelled": bool, "ended": status}
        self.batches = {}   # id -> the custom_ids of its acknowledged lines
        self.counts = {}
        self.violations = []

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def blame(self, what):
        with self.lock:
            self.violations.append(what)
        print("VIOLATION:", what[:2000], file=sys.stderr, flush=True)

    def accept(self, job):
        with self.lock:
            self.jobs[job] = {"events": [], "ended": None}
        self.count("jobs accepted")

    def some_job(self, dice, newest=40):
        with self.lock:
            return dice.choice(list(self.jobs)[-newest:]) if self.jobs else None

    def saw(self, job, frames, after):
        """Frames that a stream gave after a cursor: joined with what was seen before."""
        with self.lock:
            known = self.jobs[job]["events"]
            for number, frame in enumerate(frames, after + 1):
                if frame[0] != number:
                    self.violations.append(f"{job}: after {number - 1} comes event {frame[0]}")
                    return
                if number <= len(known):
                    if known[number - 1] != frame:
                        self.violations.append(f"{job}: event {number} was {known[number - 1]}, is {frame}")
                        return
                elif number == len(known) + 1:
                    known.append(frame)


class Server:
    """The process, on one port and one directory over all its lives."""

    def __init__(self, binary, directory):
        self.binary, self.directory, self.process, self.starts = binary, directory, None, []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self):
        began = time.monotonic()
        log = open(os.path.join(self.directory, "log"), "ab")
        command = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data-dir", os.path.join(self.directory, "data")]
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=self.directory)
        log.close()
        if not self.process.stdout.readline().startswith(b"http://"):
            sys.exit(f"the server does not start; see {self.directory}/log")
        self.starts.append(time.monotonic() - began)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def ask(self, method, path, body=None, kind="application/json", timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def frames(self, job, after, limit=None, timeout=60):
        """Frames (id, name, data) of a job's delta stream, at most `limit`; cut off when the server dies."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        found, frame = [], {}
        try:
            headers = {"Last-Event-ID": str(after)} if after else {}
            connection.request("GET", f"/v1/jobs/{job}/events?format=delta", headers=headers)
            answer = connection.getresponse()
            if answer.status == 204:
                return found
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            while limit is None or len(found) < limit:
                line = answer.readline()
                if not line.endswith(b"\n"):
                    break
                line = line.decode().rstrip("\r\n")
                if line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                    continue
                if "id" in frame and "data" in frame:
                    found.append((int(frame["id"]), frame.get("event", ""), json.loads(frame["data"])))
                frame = {}
        except BROKEN:
            pass
        finally:
            connection.close()
        return found


def wish(dice):
    """A job as some client would want it."""
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
    job = {"input": text, "priority": dice.choice([4, 5, 5, 5, 6])}
    if dice.random() < 0.3:
        job["conversation_id"] = f"chat-{dice.randrange(8)}"
    if dice.random() < 0.1:
        job["run_at"] = int(time.time()) + dice.randrange(3)
    return job


def client(server, world, stop, seed, has_batches):
    """Submits, cancels, reads with cuts, until told to stop. A call that the crash cut off proves nothing."""
    dice = random.Random(seed)
    while not stop.is_set():
        try:
            act = dice.random()
            job = world.some_job(dice)
            if act < 0.4 or job is None:
                status, body = server.ask("POST", "/v1/jobs", json.dumps(wish(dice)))
                if status == 202:
                    world.accept(json.loads(body)["id"])
                elif status not in (429, 503, 507):
                    world.blame(f"a submission got {status}: {body[:300]!r}")
            elif act < 0.45:
                status, _ = server.ask("POST", f"/v1/jobs/{job}/cancel")
                world.count("cancels acknowledged", status in (200, 202))
            elif act < 0.5 and has_batches:
                submit_batch(server, world, dice)
            elif act < 0.9:
                read(server, world, job, dice)
            else:
                status, body = server.ask("GET", f"/v1/jobs/{job}")
                note(world, job, status, body)
        except BROKEN:
            world.count("calls cut off")
            time.sleep(0.05)
        time.sleep(dice.random() * 0.03)


def read(server, world, job, dice):
    """Reads on where the last reader stopped, or from anywhere before, and is cut off somewhere."""
    seen = len(world.jobs[job]["events"])
    after = seen if dice.random() < 0.6 else dice.randrange(seen + 1)
    frames = server.frames(job, after, dice.choice([1, 3, 10, 50, None]))
    world.saw(job, frames, after)
    world.count("events read", len(frames))
    world.count("streams resumed", after > 0)


def note(world, job, status, body):
    if status != 200:
        return world.blame(f"{job} was accepted and is answered with {status}")
    now = json.loads(body)["status"]
    with world.lock:
        known = world.jobs[job]
        if known["ended"] not in (None, now):
            world.violations.append(f"{job} had ended {known['ended']}, is {now}")
        if now in ENDED:
            known["ended"] = now


# ---------------------------------------------------------------------------------------------------------------- batches

def submit_batch(server, world, dice):
    """`POST /v1/batches` with JSON lines; acknowledged lines owe one result each."""
    names = [f"line-{dice.randrange(10**9)}-{number}" for number in range(dice.randrange(2, 20))]
    lines = [json.dumps({"custom_id": name, "body": wish(dice)}) for name in names]
    status, body = server.ask("POST", "/v1/batches", "\n".join(lines) + "\n", "application/jsonl")
    if status in (200, 201, 202):
        with world.lock:
            world.batches[json.loads(body)["id"]] = names
        world.count("batch lines accepted", len(names))
    elif status not in (429, 503, 507):
        world.blame(f"a batch got {status}: {body[:300]!r}")


def check_batch(server, world, batch, names, deadline):
    while True:
        status, body = server.ask("GET", f"/v1/batches/{batch}")
        if status != 200:
            return world.blame(f"{batch} was accepted and is answered with {status}")
        now = json.loads(body)["status"]
        if now in ("completed", "failed", "cancelled", "expired"):
            break
        if time.monotonic() > deadline:
            return world.blame(f"{batch} never ends: {body[:500]!r}")
        time.sleep(0.2)
    status, body = server.ask("GET", f"/v1/batches/{batch}/results")
    found = sorted(json.loads(line)["custom_id"] for line in body.splitlines() if line.strip())
    if status != 200 or found != sorted(names):
        world.blame(f"{batch} owes {sorted(names)} and has {found} (status {status})")


# ------------------------------------------------------------------------------------------------------------- at the end

def check_job(server, world, job, deadline):
    while True:
        status, body = server.ask("GET", f"/v1/jobs/{job}?wait=20")
        note(world, job, status, body)
        row = json.loads(body) if status == 200 else {}
        if status != 200 or row["status"] in ENDED:
            break
        if time.monotonic() > deadline:
            return world.blame(f"{job} never ends: {row}")
    frames = server.frames(job, 0)
    world.saw(job, frames, 0)
    seen = world.jobs[job]["events"]
    ends = [frame for frame in frames if frame[1] in TERMINAL]
    if len(frames) != len(seen) or len(ends) != 1 or frames[-1] is not ends[0]:
        return world.blame(f"{job}: {len(seen)} events seen, {len(frames)} there, ends {ends}")
    if (ends[0][1] == "done") != (row.get("status") == "succeeded"):
        world.blame(f"{job} is {row.get('status')} and ends with {ends[0]}")
    check_frames(world, job, frames)
    code = (row.get("error") or {}).get("code")
    world.count("jobs " + row.get("status", "lost") + (f": {code}" if row.get("status") == "failed" else ""))
    world.count("jobs resumed", row.get("attempt", 0) > 1)


def check_frames(world, job, frames):
    """Deltas join without a hole; a call has one result."""
    lengths, results = {}, []
    for number, name, data in frames:
        if "delta" in data:
            expected = lengths.get(data["id"], 0)
            if data.get("offset", expected) != expected:
                world.blame(f"{job}: event {number} begins at {data['offset']}, not at {expected}")
            lengths[data["id"]] = expected + len(data["delta"].encode())
        if data.get("type") == "tool_result":
            results.append(data.get("id_ref") or data.get("call_id"))
    if len(results) != len(set(results)):
        world.blame(f"{job}: a call has two results: {results}")


def options():
    parser = argparse.ArgumentParser(prog="scripts/crash-loop", description=__doc__.split("\n")[0])
    parser.add_argument("kills", type=int, nargs="?", default=20, metavar="N", help="how often to kill (20)")
    parser.add_argument("--seconds-between", type=float, default=2.0, metavar="S", help="mean time between kills (2)")
    parser.add_argument("--seed", type=int, default=None, help="of the load and the moments")
    parser.add_argument("--clients", type=int, default=6, help="threads that load the server (6)")
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
    has_batches = server.ask("GET", "/v1/batches")[0] != 404
    threads = [
        threading.Thread(target=client, args=(server, world, stop, f"{seed}-{number}", has_batches), daemon=True)
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
    deadline = time.monotonic() + 120 + len(world.jobs)
    for job in list(world.jobs):
        check_job(server, world, job, deadline)
    for batch, names in world.batches.items():
        check_batch(server, world, batch, names, deadline)
    status, body = server.ask("GET", "/v1/jobs?status=running")
    left = json.loads(body).get("jobs", json.loads(body).get("data", []))
    if left:
        world.blame(f"still running at the end: {left}")


def report(world, server, wanted):
    rows = {"kills": wanted.kills, "slowest start, s": f"{max(server.starts):.2f}", **world.counts}
    rows["violations"] = len(world.violations)
    for name, value in rows.items():
        print(f"{name:<24}{value:>12}")
    if world.violations:
        print("\n".join(["", *world.violations[:20]]), file=sys.stderr)
        sys.exit(1)


main()
