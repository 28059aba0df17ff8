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
import argparse, os, random, sys, tempfile, threading, time

from clients import History, start_clients
from final_checks import check_everything
from server import Server


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
    threads = start_clients(server, history, stop, seed, arguments.clients)
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
    check_everything(server, history)


def report(history, server, arguments):
    rows = {"kills": arguments.kills, "slowest start, s": f"{max(server.starts):.2f}", **history.counts}
    rows["violations"] = len(history.violations)
    for name, value in rows.items():
        print(f"{name:<32}{value:>8}")
    if history.violations:
        print("\n".join(["", *history.violations[:20]]), file=sys.stderr)
        sys.exit(1)


main()
