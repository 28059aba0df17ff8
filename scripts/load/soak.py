"""The program of scripts/soak: the real server under mixed load for a long time, with kills and stops.

It checks as a client that every accepted job ends once, with a log in which no event is lost, repeated or reordered.
It checks that memory after warm-up, threads, descriptors, files and the latency of a probe job stay bounded, and
that no process, private directory or cgroup remains. The last 45 % of the time have no restart, because a leak shows
only in a long life. The exit status is 1, with reasons, if a check fails. At the end each run applies every control
of `bounds.py` to its record, and the checks must detect each one. `--control NAME` falsifies the record or the
frames of this run, so that the run must end with 1.
"""
import argparse, csv, json, os, random, shutil, sys, tempfile, threading, time

import bounds, plot, sampler
from ledger import Ledger
from receivers import Receiver
from server import Server
from traffic import Client

LIVE_CONTROLS = ["lost", "repeated", "reordered", "orphan", "leak"]
RETENTION_JOBS_S = 120
# Short times, so that the file stops growing and endless programs end. All other values are the defaults.
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


def plan_restarts(seconds, dice):
    """(time, kind) of each restart: in the first 55 % of the time, about every three minutes, at least two."""
    span = seconds * 0.55
    number = max(2, round(span / 180))
    return [(span * (n + 0.5 + 0.6 * (dice.random() - 0.5)) / number, ("kill -9", "SIGTERM")[n % 2]) for n in range(number)]


class Soak:
    """One run."""

    def __init__(self, arguments, directory, seed):
        self.arguments, self.directory, self.dice = arguments, directory, random.Random(seed)
        self.scratch = os.path.join(directory, "scratch")
        os.mkdir(self.scratch)
        config = os.path.join(directory, "config.yml")
        with open(config, "w") as file:
            file.write(CONFIG.format(scratch=self.scratch))
        self.server = Server(os.path.abspath(arguments.binary), directory, config)
        self.ledger, self.stop = Ledger(), threading.Event()
        self.sampler = sampler.Sampler(self.server, self.ledger)
        self.stops, self.leftover_processes = [], set()
        receiver = Receiver()
        self.ledger.hooks = receiver.webhooks
        hook = receiver.url + "/webhook"
        self.clients = [Client(self.server, self.ledger, self.stop, hook, f"{seed}-{n}") for n in range(arguments.clients)]

    def run(self):
        self.server.start()
        base = self.idle_values(None)
        self.sampler.began = time.monotonic()
        self.sampler.start()
        threads = [threading.Thread(target=client.run, daemon=True) for client in self.clients]
        for thread in threads:
            thread.start()
        self.run_load()
        self.stop.set()
        for thread in threads:
            thread.join(300)
        seconds = self.sampler.now()
        self.sampler.stop.set()
        unfinished, end = self.unfinished(), self.idle_values(base)
        self.check_retention()
        self.terminate()
        return self.record(seconds, base, end, unfinished)

    def run_load(self):
        seconds = self.arguments.minutes * 60
        for moment, kind in plan_restarts(seconds, self.dice):
            self.wait_until(moment)
            self.restart(kind)
        if self.arguments.control in ("lost", "repeated", "reordered"):
            self.ledger.control = self.arguments.control
        if self.arguments.control == "orphan" and os.fork() == 0:
            os.execvp("sleep", ["sleep", "60"])
        self.wait_until(seconds)

    def wait_until(self, moment):
        while self.sampler.now() < moment:
            time.sleep(min(10, max(0, moment - self.sampler.now())))
            if int(self.sampler.now()) % 60 < 10:
                self.print_progress()

    def print_progress(self):
        row, counts = (self.sampler.samples or [{}])[-1], self.ledger.counts
        print(f"{self.sampler.now():6.0f} s  {counts.get('jobs ended', 0)} jobs, resident {row.get('rss_kb', 0) // 1024} MiB, "
              f"store {row.get('store_bytes', 0) >> 20} MiB, {row.get('fds', 0)} descriptors", flush=True)

    def restart(self, kind):
        self.sampler.mark(kind)
        self.sampler.life += 1
        self.server.kill() if kind == "kill -9" else self.terminate()
        self.server.start()
        self.sampler.life += 1  # samples taken during the restart belong to no life
        print(f"{self.sampler.now():6.0f} s  {kind}, started in {self.server.starts[-1]:.2f} s", flush=True)
        self.record_orphans(self.server.process.pid)

    def terminate(self):
        began = time.monotonic()
        status = self.server.stop(60)
        self.stops.append((time.monotonic() - began, status))
        if self.server.process.poll() is not None:
            self.record_orphans(None)

    def record_orphans(self, live):
        """Records the orphaned processes that do not end in 20 s."""
        until = time.monotonic() + 20
        while sampler.orphans(live) and time.monotonic() < until:
            time.sleep(0.1)
        self.leftover_processes |= {f"{name} ({pid})" for pid, name in sampler.orphans(live).items()}

    def idle_values(self, base):
        """A sample of the idle server. With a base: as soon as the counts are back there, or after a minute."""
        for text in ("```python\n1\n```", "```javascript\n1\n```", "```bash\ntrue\n```"):
            self.server.request("POST", "/v1/jobs?wait=60", json.dumps({"input": text}))
        for level in ("strict", "lenient"):
            call = 'tool: execute_python {"code": "1", "strictness": "%s"}' % level
            self.server.request("POST", "/v1/jobs?wait=60", json.dumps({"input": call}))
        time.sleep(3)
        until = time.monotonic() + 60
        is_settled = lambda seen: base is None or time.monotonic() > until or not list(
            bounds.judge_counts({"base": base, "end": seen}))
        while True:
            if is_settled(self.sampler.take_sample(with_metrics=False)):
                seen = self.sampler.take_sample()
                if is_settled(seen):
                    return seen
            time.sleep(1)

    def unfinished(self):
        """Unfinished jobs by the server's list. There must be none after all clients have stopped."""
        until = time.monotonic() + 120
        while True:
            found = []
            for status in ("queued", "running", "waiting"):
                found += json.loads(self.server.request("GET", f"/v1/jobs?status={status}")[1])["data"]
            if not found or time.monotonic() > until:
                return [(job["id"], job["status"]) for job in found]
            time.sleep(0.5)

    def check_retention(self):
        """Checks that retention removed old jobs, if the last life is long enough."""
        lived_s = self.sampler.now() - max([t for t, _ in self.sampler.marks], default=0)
        limit = time.monotonic() - RETENTION_JOBS_S - 240
        old = [job for moment, job in self.ledger.ended if moment < limit]
        if lived_s < RETENTION_JOBS_S + 240:
            return
        kept = [job for job in old if self.server.request("GET", f"/v1/jobs/{job}")[0] != 404]
        self.ledger.count("removed jobs checked", len(old))
        if kept:
            self.ledger.add_violation(f"{len(kept)} of {len(old)} jobs outlive their retention, such as {kept[0]}")

    def record(self, seconds, base, end, unfinished):
        sampled, ledger = self.sampler, self.ledger
        leftovers = {"processes": sorted(self.leftover_processes), "private directories": os.listdir(self.scratch),
                     "cgroups": self.cgroups()}
        if self.arguments.control == "leak":
            end["fds"] = end.get("fds", 0) + len(sampled.samples)
        return {"seconds": seconds, "samples": sampled.samples, "probes": sampled.probes, "marks": sampled.marks, "base": base,
                "end": end, "unfinished": unfinished, "violations": ledger.violations, "counts": ledger.counts,
                "open": [f"{job} ({kind})" for job, (kind, _) in ledger.open.items()], "starts": self.server.starts,
                "stops": self.stops, "leftovers": leftovers, "unreadable": sampled.unreadable}

    def cgroups(self):
        names = tuple(f"nanoclaw-{broker}-" for broker in self.sampler.brokers)
        return [os.path.join(folder, name) for folder, children, _ in os.walk("/sys/fs/cgroup") for name in children
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
    rows = bounds.after_warm_up(bounds.last_life(record))
    answers = [ms for _, window in bounds.windows(record) for ms in window]
    most = lambda name: max((row.get(name, 0) for row in record["samples"]), default=0)
    ends = lambda name: ("not seen" if name in record["unreadable"] else
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
    if record["unreadable"]:
        print(f"not checked, because only root can read it here: {', '.join(sorted(record['unreadable']))}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="length of the run (60)")
    parser.add_argument("--out", default="target/soak", metavar="DIR", help="directory for soak.svg, soak.csv and probes.csv (target/soak)")
    parser.add_argument("--binary", default="target/release/nanoclaw", help="the server (target/release/nanoclaw)")
    parser.add_argument("--clients", type=int, default=10, help="client threads (10)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the load and of the times of the restarts")
    parser.add_argument("--control", choices=sorted([*bounds.CONTROLS, *LIVE_CONTROLS]), help="falsify this; the run must fail")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    os.makedirs(arguments.out, exist_ok=True)
    sampler.adopt_orphans()
    directory = tempfile.mkdtemp(prefix="run-", dir=os.path.abspath(arguments.out))
    print(f"seed {seed}, {arguments.minutes:g} minutes, {directory}", flush=True)
    soak = Soak(arguments, directory, seed)
    try:
        record = soak.run()
    finally:
        if soak.server.process and soak.server.process.poll() is None:
            soak.server.kill()
    if arguments.control in bounds.CONTROLS:
        bounds.CONTROLS[arguments.control](record)
    write(record, arguments.out, f"nanoclaw, {arguments.minutes:g} minutes, seed {seed}")
    report(record)
    reasons = bounds.judge(record)
    reasons += [f"the checks do not detect the control '{name}'" for name in bounds.undetected_controls(record)]
    if not reasons:
        shutil.rmtree(directory, ignore_errors=True)
        print(f"bounded; the checks detect every control; see {arguments.out}/soak.svg")
        return
    print("\n".join(["", "NOT BOUNDED", *reasons, f"the server's log: {directory}/log"]), file=sys.stderr)
    sys.exit(1)


main()
