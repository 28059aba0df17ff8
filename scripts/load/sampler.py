"""Samples the server from outside once a second: memory, threads, descriptors, files, processes, and the latency of
a probe job. `bounds.py` judges the samples. Values that /proc hides from this user come from the server's metrics
or stay empty; `unreadable` lists them."""
import ctypes, json, os, re, threading, time

from server import INTERRUPTED

PR_SET_CHILD_SUBREAPER = 36
COLUMNS = ["t", "life", "rss_kb", "anon_kb", "threads", "fds", "broker_rss_kb", "broker_anon_kb", "broker_fds", "processes",
           "store_bytes", "data_bytes", "queued", "ended", "cut_off", "violations"]


def adopt_orphans():
    """Makes orphans children of this program, so that it finds every leftover process."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes():
    """pid -> (parent, state, name) of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    text = stat.read()
            except OSError:
                continue
            state, parent = text[text.rindex(")") + 2:].split()[:2]
            found[int(name)] = (int(parent), state, text[text.index("(") + 1:text.rindex(")")])
    return found


def descendants(root, table=None):
    """pid -> name of all descendants, without zombies."""
    table = table or processes()
    found, level = {}, {root}
    while level:
        level = {pid for pid, (parent, _, _) in table.items() if parent in level and pid not in found}
        found.update({pid: table[pid][2] for pid in level if table[pid][1] != "Z"})
    return found


def orphans(live):
    """Our children except the server, and their descendants. Reaps zombies."""
    table, own = processes(), os.getpid()
    for pid, (parent, state, _) in table.items():
        if parent == own and state == "Z" and pid != live:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
    tops = [pid for pid, (parent, state, _) in table.items() if parent == own and state != "Z" and pid != live]
    found = {pid: table[pid][2] for pid in tops}
    for pid in tops:
        found.update(descendants(pid, table))
    return found


def memory(pid):
    """Resident and anonymous memory in KiB, and threads."""
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return [int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon", "Threads")]


def descriptors(pid):
    """Open descriptors; `None` if the kernel shows them to root only."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return None


def reported_descriptors(server):
    """Open descriptors by the server's metrics."""
    status, page = server.request("GET", "/metrics")
    found = re.search(r"^process_open_fds (\d+)$", page.decode(), re.MULTILINE) if status == 200 else None
    return int(found[1]) if found else None


def tree_bytes(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total


class Sampler:
    """The samples and probe latencies so far. `life` counts the server's starts."""

    def __init__(self, server, ledger):
        self.server, self.ledger = server, ledger
        self.began = time.monotonic()
        self.samples, self.probes, self.marks = [], [], []
        self.life, self.queued, self.stop = 1, 0, threading.Event()
        self.brokers, self.unreadable = set(), set()

    def now(self):
        return time.monotonic() - self.began

    def mark(self, kind):
        self.marks.append((self.now(), kind))

    def start(self):
        for work in (self.sample_loop, self.probe_loop):
            threading.Thread(target=work, daemon=True).start()

    def sample_loop(self):
        while not self.stop.is_set():
            began, life = time.monotonic(), self.life
            try:
                sample = self.take_sample()
            except (OSError, KeyError, ValueError):
                sample = None  # the server restarts
            if sample and life == self.life:
                self.samples.append(sample)
            time.sleep(max(0.05, 1 - (time.monotonic() - began)))

    def take_sample(self, with_metrics=True):
        """Takes a sample. `with_metrics` requests the values that /proc hides, which wakes a thread of the server."""
        pid, data = self.server.process.pid, os.path.join(self.server.directory, "data")
        children = descendants(pid)
        broker = next((pid for pid, name in children.items() if name == "nanoclaw-broker"), None)
        sample = {"t": round(self.now(), 1), "life": self.life, "processes": len(children)}
        fds = descriptors(pid)
        if fds is not None or with_metrics:
            self.put(sample, "fds", reported_descriptors(self.server) if fds is None else fds)
        sample["rss_kb"], sample["anon_kb"], sample["threads"] = memory(pid)
        if broker:
            self.brokers.add(broker)
            sample["broker_rss_kb"], sample["broker_anon_kb"], _ = memory(broker)
            self.put(sample, "broker_fds", descriptors(broker))
        sample["store_bytes"] = os.path.getsize(os.path.join(data, "nanoclaw.redb"))
        sample["data_bytes"] = tree_bytes(data)
        counts = self.ledger.counts
        sample |= {"queued": self.queued, "ended": counts.get("jobs ended", 0), "cut_off": counts.get("calls cut off", 0)}
        return sample | {"violations": len(self.ledger.violations)}

    def put(self, sample, name, value):
        """Adds a value. An unreadable value stays out, so that it does not count as zero."""
        if value is None:
            self.unreadable.add(name)
        else:
            sample[name] = value

    def probe_loop(self):
        """Sends a small job each second and measures the time to its answer; `None` without an answer."""
        body, rounds = json.dumps({"input": "probe", "priority": 0, "tools": False}), 0
        while not self.stop.is_set():
            began, life = self.now(), self.life
            try:
                status, answer = self.server.request("POST", "/v1/jobs?wait=30", body)
                good = status in (200, 202) and json.loads(answer)["status"] == "succeeded"
                if rounds % 5 == 0:
                    status, page = self.server.request("GET", "/v1/jobs?status=queued&limit=100")
                    self.queued = len(json.loads(page)["data"]) if status == 200 else self.queued
            except INTERRUPTED:
                good = False
            took_ms = (self.now() - began) * 1000
            self.probes.append({"t": began, "life": life, "ms": took_ms if good else None})
            rounds += 1
            time.sleep(max(0.05, 1 - took_ms / 1000))
