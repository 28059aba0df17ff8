"""Decides whether a soak stayed within its limits: pure functions over the record. Can also break a record on
purpose; the functions must notice each of these (`unnoticed`)."""
import copy

LIMITS = {
    "warm_up_share": 0.25,         # of the last life: caches fill
    "growth_kb": 4 * 1024,         # anonymous memory over the rest of the last life, server and broker each
    "long_life_s": 300,            # a shorter last life is still warming up, whatever its first quarter
    "short_growth_kb": 16 * 1024,  # so this holds for it; only a long one can show a slow leak
    "rss_kb": 160 * 1024,          # at any moment, the server
    "broker_rss_kb": 64 * 1024,
    "threads": 128,                # at any moment
    "fds": 400,                    # at any moment
    "fds_over_base": 2,            # of the idle server when all is done, over what it had before
    "threads_over_base": 4,
    "processes_over_base": 4,      # zygotes of levels that were not used before, and their spare children
    "store_bytes": 512 * 2**20,    # at any moment
    "plateau": 1.25,               # the file's last quarter over the two before, where the last life is long enough
    "plateau_bytes": 8 * 2**20,    # and this beside it: the file grows in steps
    "plateau_after_s": 900,
    "p50_ms": 2_000,               # of the probe, in each window
    "p99_ms": 15_000,              # over all
    "window_s": 30,
    "start_s": 10,
    "stop_s": 20,                  # SIGTERM to exit, drain included
    "grace_s": 20,                 # around a restart a probe may fail
    "unseen_share": 0.5,           # a sample a second is wanted; fewer than this share is no record
}


def judge(record):
    """All limits that this run broke."""
    parts = (judge_work, judge_memory, judge_counts, judge_latency, judge_files, judge_restarts, judge_leftovers)
    return [reason for part in parts for reason in part(record)]


def last_life(record, rows="samples"):
    last = max((row["life"] for row in record["samples"]), default=0)
    return [row for row in record[rows] if row["life"] == last]


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def growth(rows, name, parts=10):
    """How much the floor of a value rose over the rows: the median of all slopes between the minima of its windows.
    Single jobs take memory and give it back above that floor; what leaks lifts it."""
    rows = [row for row in rows if row.get(name) is not None]
    parts = min(parts, len(rows) // 2)
    if parts < 2:
        return 0
    size = len(rows) / parts
    windows = [rows[int(n * size):int((n + 1) * size)] for n in range(parts)]
    points = [(median([row["t"] for row in window]), min(row[name] for row in window)) for window in windows]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:] if b[0] > a[0]]
    return median(slopes) * (rows[-1]["t"] - rows[0]["t"])


def warm(rows):
    if not rows:
        return []
    begin, end = rows[0]["t"], rows[-1]["t"]
    return [row for row in rows if row["t"] >= begin + (end - begin) * LIMITS["warm_up_share"]]


def growth_limit(record):
    rows = last_life(record)
    is_long = rows and rows[-1]["t"] - rows[0]["t"] >= LIMITS["long_life_s"]
    return LIMITS["growth_kb" if is_long else "short_growth_kb"]


def judge_work(record):
    yield from record["violations"][:20]
    if record["open"]:
        yield f"{len(record['open'])} accepted jobs were not seen to end, as {record['open'][:3]}"
    if record["counts"].get("jobs accepted", 0) != record["counts"].get("jobs ended", 0):
        yield f"{record['counts'].get('jobs accepted', 0)} jobs accepted, {record['counts'].get('jobs ended', 0)} ended"
    if record["counts"].get("jobs ended", 0) < record["seconds"] / 2:
        yield f"only {record['counts'].get('jobs ended', 0)} jobs in {record['seconds']:.0f} s: this was no load"
    if record["unfinished"]:
        yield f"jobs without an end when all is done: {record['unfinished']}"
    if len(record["samples"]) < record["seconds"] * LIMITS["unseen_share"]:
        yield f"only {len(record['samples'])} samples in {record['seconds']:.0f} s"


def judge_memory(record):
    rows = warm(last_life(record))
    limit = growth_limit(record)
    for name in ("anon_kb", "broker_anon_kb"):
        grown = growth(rows, name)
        if grown > limit:
            yield f"{name} grew by {grown:.0f} KiB after warm-up; the limit is {limit}"
    for name in ("rss_kb", "broker_rss_kb", "threads", "fds"):
        most = max((row.get(name, 0) for row in record["samples"]), default=0)
        if most > LIMITS[name]:
            yield f"{name} reached {most}; the limit is {LIMITS[name]}"


def judge_counts(record):
    for name, limit in (("fds", "fds_over_base"), ("broker_fds", "fds_over_base"), ("threads", "threads_over_base"),
                        ("processes", "processes_over_base")):
        if name in record.get("unseen", ()):
            continue
        base, end = record["base"].get(name, 0), record["end"].get(name, 0)
        if end > base + LIMITS[limit]:
            yield f"{name}: {base} before, {end} when all is done and the server idle"


def windows(record):
    """(begin, latencies in ms) for each window of time without restarts."""
    found = {}
    for probe in record["probes"]:
        if probe["ms"] is not None and not near_restart(record, probe["t"]):
            found.setdefault(int(probe["t"] // LIMITS["window_s"]), []).append(probe["ms"])
    return [(number * LIMITS["window_s"], found[number]) for number in sorted(found)]


def near_restart(record, t):
    return any(mark - 1 <= t <= mark + LIMITS["grace_s"] for mark, _ in record["marks"])


def judge_latency(record):
    for begin, answers in windows(record):
        if median(answers) > LIMITS["p50_ms"]:
            yield f"from second {begin} on the probe took {median(answers):.0f} ms (p50)"
    p99 = quantile([ms for _, answers in windows(record) for ms in answers], 0.99)
    if p99 > LIMITS["p99_ms"]:
        yield f"the probe took {p99:.0f} ms (p99)"
    lost = [probe["t"] for probe in record["probes"] if probe["ms"] is None and not near_restart(record, probe["t"])]
    if lost:
        yield f"{len(lost)} probes failed away from any restart, as at second {lost[0]:.0f}"
    if not any(answers for _, answers in windows(record)):
        yield "no probe was answered"


def judge_files(record):
    rows = last_life(record)
    most = max((row["store_bytes"] for row in record["samples"]), default=0)
    if most > LIMITS["store_bytes"]:
        yield f"the store's file reached {most} bytes"
    if not rows or rows[-1]["t"] - rows[0]["t"] < LIMITS["plateau_after_s"]:
        return
    for name in ("store_bytes", "data_bytes"):
        sizes, quarter = [row[name] for row in rows], len(rows) // 4
        before, end = max(sizes[quarter:3 * quarter]), max(sizes[3 * quarter:])
        if end > before * LIMITS["plateau"] + LIMITS["plateau_bytes"]:
            yield f"{name} reaches no plateau: {before}, then {end} bytes"


def judge_restarts(record):
    for number, seconds in enumerate(record["starts"]):
        if seconds > LIMITS["start_s"]:
            yield f"start {number} took {seconds:.1f} s"
    for seconds, status in record["stops"]:
        if status != 0 or seconds > LIMITS["stop_s"]:
            yield f"SIGTERM led to status {status} after {seconds:.1f} s"


def judge_leftovers(record):
    for what, found in record["leftovers"].items():
        if found:
            yield f"left over, {what}: {len(found)}, as {sorted(found)[:3]}"


# breaking the view on purpose

def ramp(name, by):
    def spoil(record):
        rows = last_life(record)
        for number, row in enumerate(rows):
            row[name] = row.get(name, 0) + by * number // max(1, len(rows) - 1)
    return spoil


def leave(what):
    return lambda record: record["leftovers"].setdefault(what, []).append("broken on purpose")


def slow(record):
    for probe in record["probes"]:
        probe["ms"] = probe["ms"] and probe["ms"] + 2 * LIMITS["p99_ms"]


def fail_probe(record):
    quiet = [probe for probe in record["probes"] if not near_restart(record, probe["t"])]
    quiet[len(quiet) // 2]["ms"] = None


def forget_end(record):
    record["counts"]["jobs ended"] -= 1


def more(name, by):
    return lambda record: record["end"].update({name: record["end"].get(name, 0) + by})


# Controls whose damage a record may be unable to show.
SIGHT = {"descriptors": "fds", "broker-descriptors": "broker_fds"}
CONTROLS = {
    "memory": ramp("anon_kb", 64 * 1024),
    "broker-memory": ramp("broker_anon_kb", 64 * 1024),
    "descriptors": more("fds", 8),
    "broker-descriptors": more("broker_fds", 8),
    "threads": more("threads", 16),
    "file": ramp("store_bytes", 2 * 2**30),
    "slow": slow,
    "probe": fail_probe,
    "end": forget_end,
    "open": lambda record: record["open"].append("job_of_another_life"),
    "stop": lambda record: record["stops"].append((1.0, None)),
    "process": leave("processes"),
    "directory": leave("private directories"),
    "cgroup": leave("cgroups"),
}


def unnoticed(record):
    """The controls that `judge` would miss on this record. There must be none."""
    before, missed = set(judge(record)), []
    for name, spoil in CONTROLS.items():
        if SIGHT.get(name) in record.get("unseen", ()):
            continue
        broken = copy.deepcopy(record)
        spoil(broken)
        if set(judge(broken)) <= before:
            missed.append(name)
    return missed
