"""Compares everything that the clients were answered with what the server has in the end."""
import json, time

from clients import follow, record_results, record_status
from frames import faults
from server import ENDED, TERMINAL


def check_everything(server, history, is_control=False):
    """All checks, once the clients have stopped. The first violation is enough for a control."""
    if not is_control:
        check_schedules(server, history)
        check_keys(server, history)
    deadline = time.monotonic() + (20 if is_control else 120 + len(history.jobs))
    for job in list(history.jobs):
        if is_control and history.violations:
            return
        check_job(server, history, job, deadline)
    for batch, known in history.batches.items():
        check_batch(server, history, batch, known, deadline)
    status, body = server.request("GET", "/v1/jobs?status=running")
    running = json.loads(body)["data"]
    if running:
        history.add_violation(f"still running at the end: {running}")


# Jobs

def check_job(server, history, job, deadline):
    while True:
        before = dict(history.jobs[job])
        status, body = server.request("GET", f"/v1/jobs/{job}?wait=20")
        record_status(history, job, status, body, before)
        row = json.loads(body) if status == 200 else {}
        if status not in (200, 503) or row.get("status") in ENDED:
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


# Batches

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
