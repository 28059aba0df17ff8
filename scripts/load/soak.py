"""The program of scripts/soak: the real server under mixed load for a long time, with kills and stops.

It checks from outside that every accepted job ends once, with a log in which nothing is lost, repeated or reordered.
It checks that memory after warm-up, threads, descriptors, files and the latency of a probe job stay bounded, and
that no process, private directory or cgroup is left over. The last 45 % of the time have no restart, because a leak
shows only in a long life. The exit status is 1, with reasons, if anything is wrong. At the end each run breaks its
own record in every way that `bounds.py` knows, and must notice. `--control NAME` breaks the view during the run, and
the run must end with 1.
"""
import argparse, csv, http.server, json, os, random, shutil, sys, tempfile, threading, time

import bounds, plot, sampler
from ledger import Ledger
from server import BROKEN, Server
from traffic import Client

LIVE_CONTROLS = ["lost", "repeated", "reordered", "orphan", "leak"]
RETENTION_JOBS_S = 120
# Short times, so that the file reaches its plateau and runaway programs end. Everything else is the default.
CONFIG = """
store: {{cache_bytes: 4194304}}
retention: {{deltas: 60s, events: 90s, jobs: %ds}}
audit: {{max_bytes: 1048576, files: 2}}
webhooks: {{allow_private_addresses: [127.0.0.1]}}
limits: {{idempotency_s: 120, drain_s: 5}}
code_execution:
  scratch_dir: {scratch}
  levels:
    strict: {{timeout_ms: 1000}}
    standard: {{timeout_ms: 1500}}
    lenient: {{timeout_ms: 2000}}
    shell: {{timeout_ms: 5000}}
""" % RETENTION_JOBS_S


def listen(ledger):
    """Receives webhooks."""
    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            job = body.get("id") or body.get("data", {}).get("id")
            with ledger.lock:
                ledger.hooks[job] = ledger.hooks.get(job, 0) + 1
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    door = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{door.server_port}/hook"


def plan(seconds, dice):
    """When and how to restart: within the first 55 % of the time, about every three minutes, at least twice."""
    span = seconds * 0.55
    number = max(2, round(span / 180))
    return [(span * (n + 0.5 + 0.6 * (dice.random() - 0.5)) / number, ("kill -9", "SIGTERM")[n % 2]) for n in range(number)]


class Soak:
    """One run."""

    def __init__(self, wanted, directory, seed):
        self.wanted, self.directory, self.dice = wanted, directory, random.Random(seed)
        self.scratch = os.path.join(directory, "scratch")
        os.mkdir(self.scratch)
        config = os.path.join(directory, "config.yml")
        with open(config, "w") as file:
            file.write(CONFIG.format(scratch=self.scratch))
        self.server = Server(os.path.abspath(wanted.binary), directory, config)
        self.ledger, self.stop = Ledger(), threading.Event()
        self.sampler = sampler.Sampler(self.server, self.ledger)
        self.stops, self.left = [], set()
        hook = listen(self.ledger)
        self.clients = [Client(self.server, self.ledger, self.stop, hook, f"{seed}-{n}") for n in range(wanted.clients)]

    def run(self):
        self.server.start()
        base = self.idle(None)
        self.sampler.began = time.monotonic()
        self.sampler.begin()
        threads = [threading.Thread(target=client.run, daemon=True) for client in self.clients]
        for thread in threads:
            thread.start()
        self.live()
        self.stop.set()
        for thread in threads:
            thread.join(300)
        seconds = self.sampler.now()
        self.sampler.stop.set()
        unfinished, end = self.unfinished(), self.idle(base)
        self.forgotten()
        self.terminate()
        return self.record(seconds, base, end, unfinished)

    def live(self):
        seconds = self.wanted.minutes * 60
        for moment, kind in plan(seconds, self.dice):
            self.wait_until(moment)
            self.restart(kind)
        if self.wanted.control in ("lost", "repeated", "reordered"):
            self.ledger.control = self.wanted.control
        if self.wanted.control == "orphan" and os.fork() == 0:
            os.execvp("sleep", ["sleep", "60"])
        self.wait_until(seconds)

    def wait_until(self, moment):
        while self.sampler.now() < moment:
            time.sleep(min(10, max(0, moment - self.sampler.now())))
            if int(self.sampler.now()) % 60 < 10:
                self.talk()

    def talk(self):
        row, counts = (self.sampler.samples or [{}])[-1], self.ledger.counts
        print(f"{self.sampler.now():6.0f} s  {counts.get('jobs ended', 0)} jobs, resident {row.get('rss_kb', 0) // 1024} MiB, "
              f"store {row.get('store_bytes', 0) >> 20} MiB, {row.get('fds', 0)} descriptors", flush=True)

    def restart(self, kind):
        self.sampler.mark(kind)
        self.sampler.life += 1
        self.server.kill() if kind == "kill -9" else self.terminate()
        self.server.start()
        self.sampler.life += 1  # what was seen meanwhile belongs to none
        print(f"{self.sampler.now():6.0f} s  {kind}, started in {self.server.starts[-1]:.2f} s", flush=True)
        self.bury(self.server.process.pid)

    def terminate(self):
        began = time.monotonic()
        status = self.server.stop(60)
        self.stops.append((time.monotonic() - began, status))
        if self.server.process.poll() is not None:
            self.bury(None)

    def bury(self, live):
        """Processes that are left over after some time to end."""
        until = time.monotonic() + 20
        while sampler.orphans(live) and time.monotonic() < until:
            time.sleep(0.1)
        self.left |= {f"{name} ({pid})" for pid, name in sampler.orphans(live).items()}

    def idle(self, base):
        """Values of the idle server. With a base: as soon as they are back there, or after a minute."""
        for text in ("```python\n1\n```", "```javascript\n1\n```", "```bash\ntrue\n```"):
            self.server.ask("POST", "/v1/jobs?wait=60", json.dumps({"input": text}))
        for level in ("strict", "lenient"):
            call = 'tool: execute_python {"code": "1", "strictness": "%s"}' % level
            self.server.ask("POST", "/v1/jobs?wait=60", json.dumps({"input": call}))
        time.sleep(3)
        until = time.monotonic() + 60
        settled = lambda seen: base is None or time.monotonic() > until or not list(
            bounds.judge_counts({"base": base, "end": seen}))
        while True:
            if settled(self.sampler.look(asks=False)):
                seen = self.sampler.look()
                if settled(seen):
                    return seen
            time.sleep(1)

    def unfinished(self):
        """Unfinished jobs by the server's own count. There must be none when all clients have stopped."""
        until = time.monotonic() + 120
        while True:
            found = []
            for status in ("queued", "running", "waiting"):
                found += json.loads(self.server.ask("GET", f"/v1/jobs?status={status}")[1])["data"]
            if not found or time.monotonic() > until:
                return [(job["id"], job["status"]) for job in found]
            time.sleep(0.5)

    def forgotten(self):
        """Checks, in a life that is long enough, that retention removed old jobs."""
        lived_s = self.sampler.now() - max([t for t, _ in self.sampler.marks], default=0)
        limit = time.monotonic() - RETENTION_JOBS_S - 240
        old = [job for moment, job in self.ledger.ended if moment < limit]
        if lived_s < RETENTION_JOBS_S + 240:
            return
        there = [job for job in old if self.server.ask("GET", f"/v1/jobs/{job}")[0] != 404]
        self.ledger.count("old jobs looked for", len(old))
        if there:
            self.ledger.blame(f"{len(there)} of {len(old)} jobs outlive their retention, as {there[0]}")

    def record(self, seconds, base, end, unfinished):
        watch, ledger = self.sampler, self.ledger
        left = {"processes": sorted(self.left), "private directories": os.listdir(self.scratch), "cgroups": self.cgroups()}
        if self.wanted.control == "leak":
            end["fds"] = end.get("fds", 0) + len(watch.samples)
        return {"seconds": seconds, "samples": watch.samples, "probes": watch.probes, "marks": watch.marks, "base": base,
                "end": end, "unfinished": unfinished, "violations": ledger.violations, "counts": ledger.counts,
                "open": [f"{job} ({kind})" for job, (kind, _) in ledger.open.items()], "starts": self.server.starts,
                "stops": self.stops, "leftovers": left, "unseen": watch.unseen}

    def cgroups(self):
        names = tuple(f"nanoclaw-{broker}-" for broker in self.sampler.brokers)
        return [os.path.join(folder, name) for folder, below, _ in os.walk("/sys/fs/cgroup") for name in below
                if names and name.startswith(names)]


def write(record, out, title):
    with open(os.path.join(out, "soak.csv"), "w", newline="") as file:
        table = csv.DictWriter(file, sampler.COLUMNS, restval="", extrasaction="ignore")
        table.writeheader()
        table.writerows(record["samples"])
    with open(os.path.join(out, "probes.csv"), "w", newline="") as file:
        table = csv.DictWriter(file, ["t", "life", "ms"])
        table.writeheader()
        table.writerows(record["probes"])
    with open(os.path.join(out, "soak.svg"), "w") as file:
        file.write(plot.draw(record, bounds.windows(record), title))


def report(record):
    rows = bounds.warm(bounds.last_life(record))
    answers = [ms for _, window in bounds.windows(record) for ms in window]
    most = lambda name: max((row.get(name, 0) for row in record["samples"]), default=0)
    ends = lambda name: ("not seen" if name in record["unseen"] else
                         f"{record['base'].get(name)} -> {record['end'].get(name)} (most {most(name)})")
    table = {name: value for name, value in sorted(record["counts"].items()) if value}
    table |= {
        "jobs a second": f"{record['counts'].get('jobs ended', 0) / record['seconds']:.1f}",
        "resident, most, MiB": f"{most('rss_kb') / 1024:.1f}",
        "anonymous, growth, KiB": f"{bounds.growth(rows, 'anon_kb'):.0f} (limit {bounds.growth_limit(record)})",
        "broker anonymous, growth, KiB": f"{bounds.growth(rows, 'broker_anon_kb'):.0f} (limit {bounds.growth_limit(record)})",
        "descriptors": ends("fds"), "broker's descriptors": ends("broker_fds"), "threads": ends("threads"),
        "processes": ends("processes"), "store, most, MiB": f"{most('store_bytes') / 2**20:.1f}",
        "probe p50, p99, ms": f"{bounds.quantile(answers, 0.5):.0f}, {bounds.quantile(answers, 0.99):.0f}",
        "starts, slowest, s": f"{max(record['starts']):.2f}",
        "stops, s": ", ".join(f"{seconds:.1f}" for seconds, _ in record["stops"]),
    }
    for name, value in table.items():
        print(f"{name:<34}{value:>12}")
    if record["unseen"]:
        print(f"not checked, because only root may see it here: {', '.join(sorted(record['unseen']))}")


def options():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="how long (60)")
    parser.add_argument("--out", default="target/soak", metavar="DIR", help="soak.svg, soak.csv, probes.csv (target/soak)")
    parser.add_argument("--binary", default="target/release/nanoclaw", help="the server")
    parser.add_argument("--clients", type=int, default=10, help="threads that load the server (10)")
    parser.add_argument("--seed", type=int, default=None, help="of the load and the moments")
    parser.add_argument("--control", choices=sorted([*bounds.CONTROLS, *LIVE_CONTROLS]), help="break this in the own view")
    return parser.parse_args()


def main():
    wanted = options()
    seed = wanted.seed if wanted.seed is not None else random.randrange(10**6)
    os.makedirs(wanted.out, exist_ok=True)
    sampler.adopt_orphans()
    directory = tempfile.mkdtemp(prefix="run-", dir=os.path.abspath(wanted.out))
    print(f"seed {seed}, {wanted.minutes:g} minutes, {directory}", flush=True)
    soak = Soak(wanted, directory, seed)
    try:
        record = soak.run()
    finally:
        if soak.server.process and soak.server.process.poll() is None:
            soak.server.kill()
    if wanted.control in bounds.CONTROLS:
        bounds.CONTROLS[wanted.control](record)
    write(record, wanted.out, f"nanoclaw, {wanted.minutes:g} minutes, seed {seed}")
    report(record)
    reasons = bounds.judge(record)
    reasons += [f"the control '{name}' would not be noticed" for name in bounds.unnoticed(record)]
    if not reasons:
        shutil.rmtree(directory, ignore_errors=True)
        print(f"bounded; every control was noticed; see {wanted.out}/soak.svg")
        return
    print("\n".join(["", "NOT BOUNDED", *reasons, f"the server's log: {directory}/log"]), file=sys.stderr)
    sys.exit(1)


main()
