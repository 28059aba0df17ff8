"""What clients do to a cluster beside the requests of `clients.py`: effects, webhooks, other protocols, and readers
and requests that move from node to node."""
import json, time

from clients import report_refusal
from final_checks import every_job
from frames import join
from server import INTERRUPTED, TERMINAL

FOLLOW_S = 120


class World:
    """What a trial remembers of effects and webhooks."""

    def __init__(self, receiver):
        self.receiver = receiver
        self.effects, self.hooked = {}, set()  # content -> its job; jobs that report their ends
        self.once = {}  # mark in the metadata of a scheduled job -> whether its schedule was accepted

    def actions(self):
        return [(12, self.cause_effect), (8, self.report), (5, follow), (4, chat), (4, respond), (8, read_elsewhere),
                (6, self.schedule_once)]

    def cause_effect(self, cluster, history, dice):
        """A job whose tool sends a message, once."""
        content = f"effect-{dice.randrange(10**12)}"
        if dice.random() < 0.5:
            job = {"input": f"effect {content}", "model": "wire"}
        else:
            job = {"input": "tool: message " + json.dumps({"channel": "effects", "content": content})}
        accepted = submit_until_answered(cluster, history, dice, job)
        if accepted:
            with history.lock:
                self.effects[content] = accepted

    def report(self, cluster, history, dice):
        """A job that reports its end to a webhook."""
        job = {"input": "report this", "webhook_url": self.receiver.url + "/webhook"}
        accepted = submit_until_answered(cluster, history, dice, job)
        if accepted:
            with history.lock:
                self.hooked.add(accepted)

    def schedule_once(self, cluster, history, dice):
        """A schedule with one occurrence, which makes one job."""
        mark = f"once-{dice.randrange(10**12)}"
        job = {"input": "the only occurrence", "metadata": {"mark": mark}}
        with history.lock:
            self.once[mark] = False
        body = json.dumps({"at": int(time.time()) + dice.randrange(1, 4), "job": job})
        status, answer = cluster.request("POST", "/v1/schedules", body)
        if status != 201:
            return report_refusal(history, "a schedule", status, answer)
        with history.lock:
            self.once[mark] = True


def submit_until_answered(cluster, history, dice, job):
    """Repeats a submission with its key until some node answers. Returns the job."""
    key, until = f"once-{dice.randrange(10**15)}", time.monotonic() + FOLLOW_S
    while time.monotonic() < until:
        try:
            status, body = cluster.request("POST", "/v1/jobs", json.dumps(job), key=key)
            if status in (200, 202):
                accepted = json.loads(body)["id"]
                history.accept(accepted)
                return accepted
            report_refusal(history, "a submission with a key", status, body)
        except INTERRUPTED:
            history.count("calls cut off")
        time.sleep(0.1)
    history.add_violation(f"a submission has no answer in {FOLLOW_S} s")
    return None


def follow(cluster, history, dice):
    """Reads a stream from its beginning to its end, a few frames at each node."""
    words = dice.randrange(10, 80)
    job = {"input": f"words {words}", "model": "wire"} if dice.random() < 0.5 else {"input": f"stream: {words} words, 20 ms"}
    accepted = submit_until_answered(cluster, history, dice, job)
    seen, until = [], time.monotonic() + FOLLOW_S
    while accepted and (not seen or seen[-1][1] not in TERMINAL):
        after = len(seen)
        frames = cluster.frames(accepted, after, dice.choice([1, 2, 5, 20, None]))
        wrong = join(seen, frames, after)
        if wrong:
            return history.add_violation(f"a reader that moves between nodes: {accepted}: {wrong}")
        history.count("moves of readers")
        if time.monotonic() > until:
            return history.add_violation(f"{accepted} does not end in {FOLLOW_S} s: {seen[-1:]}")
        if not frames:
            time.sleep(0.1)
    if accepted:
        history.count("streams followed")
        history.add_frames(accepted, seen, 0)


def read_elsewhere(cluster, history, dice):
    """What one node has accepted, every other one knows at once."""
    node = dice.choice(cluster.nodes)
    status, body = node.request("POST", "/v1/jobs", json.dumps({"input": "seen everywhere"}))
    if status != 202:
        return report_refusal(history, "a submission", status, body)
    job = json.loads(body)["id"]
    history.accept(job)
    for other in cluster.others(node):
        status, body = other.request("GET", f"/v1/jobs/{job}")
        if status == 404:
            history.add_violation(f"{job} was accepted by {node.name}, but {other.name} does not know it")
        elif status == 200:
            history.count("jobs read at another node")


def chat(cluster, history, dice):
    body = {"model": "wire", "store": True, "messages": [{"role": "user", "content": f"hello {dice.random()}"}]}
    ask(cluster, history, dice, "/v1/chat/completions", body, "chatcmpl-")


def respond(cluster, history, dice):
    body = {"model": "wire", "input": f"hello {dice.random()}", "background": dice.random() < 0.5}
    ask(cluster, history, dice, "/v1/responses", body, "resp_")


def ask(cluster, history, dice, path, body, prefix):
    """One request of another protocol. Its answer, or the job behind it, must stay."""
    status, answer = cluster.request("POST", path, json.dumps(body), key=f"ask-{dice.randrange(10**15)}")
    if status != 200:
        # A node that stops ends the requests that wait at it, and a job may meet too many crashes.
        is_fault = status == 502 or b'"poison"' in answer
        return None if is_fault else report_refusal(history, path, status, answer)
    job = json.loads(answer)["id"].removeprefix(prefix)
    history.accept(job if job.startswith("job_") else f"job_{job}")
    history.count(f"answers of {path}")


def check_occurrences(cluster, history, world):
    until = time.monotonic() + 30
    while True:
        made = {}
        for job in every_job(cluster):
            mark = (job["metadata"] or {}).get("mark")
            made[mark] = made.get(mark, 0) + 1
        wrong = {mark: made.get(mark, 0) for mark, is_accepted in world.once.items()
                 if made.get(mark, 0) != 1 and (is_accepted or mark in made)}
        if not wrong or time.monotonic() > until:
            break
        time.sleep(0.5)
    history.count("occurrences of one-time schedules", sum(mark in made for mark in world.once))
    if wrong:
        history.add_violation(f"occurrences and the number of their jobs: {wrong}")


def check_world(cluster, history, world, is_calm):
    """Effects happened at most once, and once if their job says so. Webhooks arrived; once if nothing crashed.
    Occurrences made one job each."""
    check_occurrences(cluster, history, world)
    receiver = world.receiver
    for content, job in world.effects.items():
        times = receiver.effects.get(content, 0)
        results = [data for _, _, data in history.jobs[job]["events"] if data.get("type") == "tool_result"]
        is_certain = any('"success":true' in data.get("content", "").replace(" ", "") for data in results)
        is_missed = is_calm and history.jobs[job]["ended"] == "succeeded" and not is_certain
        if times > 1 or (is_certain and times != 1) or is_missed:
            history.add_violation(f"{job}: {content} happened {times} times; its results are {results}")
        history.count("effects", times)
        history.count("effects of unknown outcome", not is_certain)
    until = time.monotonic() + 150
    for job in world.hooked:
        while job not in receiver.webhooks and time.monotonic() < until:
            time.sleep(0.2)
        ids = receiver.webhooks.get(job, [])
        if history.jobs[job]["retries"]:
            continue  # it has ended more than once
        if len(set(ids)) != 1 or (is_calm and len(ids) != 1):
            history.add_violation(f"{job}: its end was reported {len(ids)} times, as {sorted(set(ids))}")
        history.count("webhooks")
        history.count("webhooks sent again", len(ids) - 1 if ids else 0)
    unknown = set(receiver.webhooks) - world.hooked - set(history.jobs)
    if unknown:
        history.add_violation(f"webhooks of jobs that nobody has submitted: {sorted(unknown)[:5]}")
