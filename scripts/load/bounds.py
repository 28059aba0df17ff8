"""Judges whether a soak stayed within its limits: pure functions over the record. The controls at the end falsify
a record, and `judge` must detect each of them (`undetected_controls`)."""
import copy

LIMITS = {
    "warm_up_share": 0.25,         # of the last life, in which caches fill
    "growth_kb": 4 * 1024,         # anonymous memory over the rest of the last life, server and broker each
    "long_life_s": 300,            # a shorter last life is still warming up after its first quarter
    "short_growth_kb": 16 * 1024,  # the growth limit of a shorter life; only a long one shows a slow leak
    "rss_kb": 160 * 1024,          # at any moment, the server
    "broker_rss_kb": 64 * 1024,
    "threads": 128,                # at any moment
    "fds": 400,                    # at any moment
    "fds_over_base": 2,            # growth of the idle server from before the load to after it
    "threads_over_base": 4,
    "processes_over_base": 4,      # zygotes of newly used levels, and their spare children
    "store_bytes": 512 * 2**20,    # at any moment
    "plateau": 1.25,               # the file's size in the last quarter of the last life over the two quarters before
    "plateau_bytes": 8 * 2**20,    # added to that, because the file grows in steps
    "plateau_after_s": 900,        # shorter last lives are not checked
    "p50_ms": 2_000,               # of the probe job, in each window
    "p99_ms": 15_000,              # of the probe job, over all windows
    "window_s": 30,
    "start_s": 10,
    "stop_s": 20,                  # SIGTERM to exit, drain included
    "grace_s": 20,                 # around a restart a probe may fail
    "min_sample_share": 0.5,       # of one sample a second; fewer samples do not make a record
}


def judge(record):
    """The reasons why this run is out of bounds."""
    checks = (judge_work, judge_memory, judge_counts, judge_latency, judge_files, judge_restarts, judge_leftovers)
    return [reason for check in checks for reason in check(record)]


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
    """The growth of a value's floor over the rows: the median of all slopes between the minima of its windows.
    A job takes memory above that floor and frees it; a leak raises the floor."""
    rows = [row for row in rows if row.get(name) is not None]
    parts = min(parts, len(rows) // 2)
    if parts < 2:
        return 0
    size = len(rows) / parts
    windows = [rows[int(n * size):int((n + 1) * size)] for n in range(parts)]
    points = [(median([row["t"] for row in window]), min(row[name] for row in window)) for window in windows]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:] if b[0] > a[0]]
    return median(slopes) * (rows[-1]["t"] - rows[0]["t"])


def after_warm_up(rows):
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
        yield f"{len(record['open'])} accepted jobs have no observed end, such as {record['open'][:3]}"
    if record["counts"].get("jobs accepted", 0) != record["counts"].get("jobs ended", 0):
        yield f"{record['counts'].get('jobs accepted', 0)} jobs accepted, {record['counts'].get('jobs ended', 0)} ended"
    if record["counts"].get("jobs ended", 0) < record["seconds"] / 2:
        yield f"only {record['counts'].get('jobs ended', 0)} jobs in {record['seconds']:.0f} s: too little load"
    if record["unfinished"]:
        yield f"unfinished jobs after all clients stopped: {record['unfinished']}"
    if len(record["samples"]) < record["seconds"] * LIMITS["min_sample_share"]:
        yield f"only {len(record['samples'])} samples in {record['seconds']:.0f} s"


def judge_memory(record):
    rows = after_warm_up(last_life(record))
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
        if name in record.get("unreadable", ()):
            continue
        base, end = record["base"].get(name, 0), record["end"].get(name, 0)
        if end > base + LIMITS[limit]:
            yield f"{name}: {base} before the load, {end} after it"


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
            yield f"from second {begin} the probe took {median(answers):.0f} ms (p50)"
    p99 = quantile([ms for _, answers in windows(record) for ms in answers], 0.99)
    if p99 > LIMITS["p99_ms"]:
        yield f"the probe took {p99:.0f} ms (p99)"
    lost = [probe["t"] for probe in record["probes"] if probe["ms"] is None and not near_restart(record, probe["t"])]
    if lost:
        yield f"{len(lost)} probes failed without a restart nearby, the first at second {lost[0]:.0f}"
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
            yield f"{name} keeps growing: {before}, then {end} bytes"


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
            yield f"{len(found)} {what} remain, such as {sorted(found)[:3]}"


# Controls: each one falsifies a record.

def add_ramp(name, by):
    def falsify(record):
        rows = last_life(record)
        for number, row in enumerate(rows):
            row[name] = row.get(name, 0) + by * number // max(1, len(rows) - 1)
    return falsify


def add_leftover(what):
    return lambda record: record["leftovers"].setdefault(what, []).append("added by a control")


def slow_down(record):
    for probe in record["probes"]:
        probe["ms"] = probe["ms"] and probe["ms"] + 2 * LIMITS["p99_ms"]


def fail_probe(record):
    quiet = [probe for probe in record["probes"] if not near_restart(record, probe["t"])]
    quiet[len(quiet) // 2]["ms"] = None


def remove_end(record):
    record["counts"]["jobs ended"] -= 1


def increase(name, by):
    return lambda record: record["end"].update({name: record["end"].get(name, 0) + by})


# The value that a control changes, where a record may lack it.
CONTROL_VALUES = {"descriptors": "fds", "broker-descriptors": "broker_fds"}
CONTROLS = {
    "memory": add_ramp("anon_kb", 64 * 1024),
    "broker-memory": add_ramp("broker_anon_kb", 64 * 1024),
    "descriptors": increase("fds", 8),
    "broker-descriptors": increase("broker_fds", 8),
    "threads": increase("threads", 16),
    "file": add_ramp("store_bytes", 2 * 2**30),
    "slow": slow_down,
    "probe": fail_probe,
    "end": remove_end,
    "open": lambda record: record["open"].append("job_unknown"),
    "stop": lambda record: record["stops"].append((1.0, None)),
    "process": add_leftover("processes"),
    "directory": add_leftover("private directories"),
    "cgroup": add_leftover("cgroups"),
}


def undetected_controls(record):
    """The controls that `judge` does not detect on this record. There must be none."""
    before, missed = set(judge(record)), []
    for name, falsify in CONTROLS.items():
        if CONTROL_VALUES.get(name) in record.get("unreadable", ()):
            continue
        false_record = copy.deepcopy(record)
        falsify(false_record)
        if set(judge(false_record)) <= before:
            missed.append(name)
    return missed
