"""The program of scripts/cluster-loop: nodes that share PostgreSQL under load of every kind, and faults in turn.

Every trial starts a database and a cluster of its own, and checks from outside, over all nodes:
- what clients were answered is there, as in scripts/crash-loop: jobs, events, keys, batches, schedules;
- what one node has accepted, every other one knows at once;
- readers that move between nodes get every event once, in order;
- an effect of a tool happens at most once, and once if its job says so;
- an occurrence of a schedule makes one job;
- an ended job has reported its end to its webhook, once if nothing crashed;
- the jobs of a dead node are taken over within its lease and 2 s;
- the nodes are ready again after each fault, without a restart.

The exit status is 1, with details, if a check fails. `--control` breaks the fencing of a stopped node inside the
database, so that the trial "stop" must fail.
"""
import argparse, os, random, signal, sys, tempfile, threading, time

from clients import History, start_clients
from cluster import Cluster, Node
from cluster_clients import World, check_world, read_elsewhere, submit_until_answered
from database import Database, ReplicatedDatabase, commands, owned_directory
from final_checks import check_everything
from proxy import Proxy
from receivers import Receiver
from server import INTERRUPTED

LEASE_S = 3
READY_S = 60    # for nodes to be ready after a fault
BACKLOG = 60    # queued jobs at which clients wait

# A node whose lease has ended keeps its row, with a lease: it does not learn that others have taken its
# jobs. The key of the log, which would refuse most of its late records, is gone as well.
BREAK_FENCE = """
CREATE FUNCTION keep_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO nodes (id, name, version, lease_until) VALUES (OLD.id, OLD.name, OLD.version, 'infinity');
  INSERT INTO commit_marks SELECT OLD.id, lane, 0 FROM generate_series(0, 7) AS lane;
  RETURN NULL; END $$;
CREATE TRIGGER keep_lease AFTER DELETE ON nodes FOR EACH ROW EXECUTE FUNCTION keep_lease();
ALTER TABLE records DROP CONSTRAINT records_pkey;
CREATE INDEX records_place ON records (job, seq, sub);
"""


class Trial:
    """A database, its nodes, and their clients."""
    times = (5, 100)  # in a short run, and in a full one
    has_proxies = False
    is_calm = False   # nothing crashes

    def __init__(self, arguments, directory, seed):
        self.arguments, self.dice = arguments, random.Random(seed)
        self.history, self.receiver, self.stop = History(), Receiver(), threading.Event()
        self.world, self.seed, self.directory = World(self.receiver), seed, directory
        self.database = self.make_database(directory)
        self.proxies, self.longest = [], {}
        self.nodes = [self.make_node(number, directory) for number in range(arguments.nodes)]
        self.cluster = Cluster(self.nodes, seed)

    def make_database(self, directory):
        return Database(directory)

    def ports(self):
        """Where the nodes find the database."""
        return [self.database.port]

    def make_node(self, number, directory):
        ports = self.ports()
        if self.has_proxies:
            self.proxies += [Proxy(ports[0], f"{self.seed}-{number}")]
            ports = [self.proxies[-1].port]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        url = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"
        options = {"url": url, "lease_s": LEASE_S, "world": self.receiver.url, "more": ""}
        return Node(os.path.abspath(self.arguments.binary), directory, f"node-{number + 1}", options)

    def run(self, times):
        self.database.create()
        try:
            starts = [threading.Thread(target=node.start) for node in self.nodes]
            for start in starts:
                start.start()
            for start in starts:
                start.join()
            if self.arguments.control:
                self.database.sql(BREAK_FENCE)
            self.run_load(times)
        finally:
            self.stop.set()
            for node in self.nodes:
                if node.process and node.process.poll() is None:
                    node.resume()
                    node.kill()
            self.database.stop("fast")

    def run_load(self, times):
        threading.Thread(target=self.limit_backlog, daemon=True).start()
        clients = start_clients(self.cluster, self.history, self.stop, self.seed, self.arguments.clients, self.world.actions())
        began = time.monotonic()
        for number in range(times):
            self.run_long_jobs()
            self.breathe()
            self.strike()
            self.await_nodes()
            if times < 40 or number % (times // 20) == 0:
                self.print_progress(number + 1, times, time.monotonic() - began)
        self.breathe()
        self.stop.set()
        for client in clients:
            client.join(120)
        check_everything(self.cluster, self.history, self.arguments.control)
        if self.arguments.control and self.history.violations:
            return  # what more there is may be unreadable
        check_world(self.cluster, self.history, self.world, self.is_calm)

    def print_progress(self, number, times, seconds):
        print(f"  {number} of {times} after {seconds:.0f} s, {len(self.history.jobs)} jobs", flush=True)

    def run_long_jobs(self):
        """Jobs that a fault hits while they run."""
        for _ in self.nodes:
            text = self.dice.choice([{"input": "stream: 100 words, 50 ms"}, {"input": "words 200", "model": "wire"}])
            submit_until_answered(self.cluster, self.history, self.dice, text)

    def limit_backlog(self):
        """Clients wait while many jobs are queued."""
        while not self.stop.is_set():
            try:
                self.history.may_act.set() if self.cluster.backlog() < BACKLOG else self.history.may_act.clear()
            except INTERRUPTED:
                pass
            time.sleep(0.5)
        self.history.may_act.set()

    def breathe(self):
        time.sleep(self.arguments.seconds_between * (0.1 + 1.8 * self.dice.random()))

    def await_nodes(self):
        took = self.cluster.wait_until_ready(READY_S)
        if took is None:
            self.history.add_violation(f"a node is not ready {READY_S} s after a fault")
        self.note("slowest recovery, s", took or READY_S)

    def note(self, name, seconds):
        self.longest[name] = max(self.longest.get(name, 0), seconds)


class Calm(Trial):
    """Nothing happens: every occurrence makes one job, and every end one webhook."""
    times, is_calm = (10, 100), True

    def strike(self):
        time.sleep(1)


class Elsewhere(Calm):
    """A job that one node has accepted is asked for at the others."""
    times = (300, 10_000)

    def strike(self):
        read_elsewhere(self.cluster, self.history, self.dice)

    def await_nodes(self):
        pass

    def breathe(self):
        pass

    def run_long_jobs(self):
        pass


class Kill(Trial):
    """A node dies; it comes back before its lease ends, or after."""

    def strike(self):
        node = self.dice.choice(self.nodes)
        row = self.database.sql(f"SELECT max(id) FROM nodes WHERE name = '{node.name}'")
        node.kill()
        killed = time.monotonic()
        if self.dice.random() < 0.3:
            node.start()
        while self.database.sql(f"SELECT count(*) FROM nodes WHERE id = {row}") != "0":
            if time.monotonic() > killed + LEASE_S + 30:
                return self.history.add_violation(f"nobody takes the jobs of {node.name} over")
            time.sleep(0.1)
        took = time.monotonic() - killed
        self.note("slowest take-over, s", took)
        if took > LEASE_S + 2:
            self.history.add_violation(f"the jobs of {node.name} were taken over after {took:.1f} s")
        if node.process.poll() is not None:
            node.start()


class Stop(Trial):
    """A node is stopped beyond its lease, and goes on."""
    times = (5, 50)

    def strike(self):
        node = self.dice.choice(self.nodes)
        node.pause()
        time.sleep(LEASE_S + 1 + 2 * self.dice.random())
        node.resume()
        time.sleep(1)


class Restart(Trial):
    """The database restarts, in order or as after a crash: at any moment, or when it has not got a commit yet."""
    times, has_proxies = (6, 50), True

    def strike(self):
        if self.dice.random() < 0.5:
            return self.database.restart(self.dice.choice(["fast", "immediate"]))
        crashed = threading.Event()
        proxy = self.dice.choice(self.proxies)
        proxy.at_commit = lambda: (self.database.stop("immediate"), crashed.set())
        if not crashed.wait(10):
            proxy.at_commit = None  # this node commits nothing
        if crashed.wait(1):
            self.database.start()


class Cut(Trial):
    """A node cannot reach the database for a while: its connections end, or nothing comes through."""
    times, has_proxies = (4, 30), True

    def strike(self):
        node, proxy = self.dice.choice(list(zip(self.nodes, self.proxies)))
        losses, seconds = node.losses(), self.dice.choice([0.5, LEASE_S / 2, LEASE_S + 3])
        self.dice.choice([proxy.cut, proxy.delay])()
        time.sleep(seconds)
        if seconds > LEASE_S and node.losses() == losses:
            self.history.add_violation(f"{node.name} does not give its jobs up without the database")
        if seconds > LEASE_S:
            self.check_refusals(node)
        proxy.join()
        time.sleep(1)

    def check_refusals(self, node):
        """A node without its database answers soon: it lives, and takes nothing."""
        for method, path, body, expected in (
            ("GET", "/healthz", None, 200), ("GET", "/readyz", None, 503), ("POST", "/v1/jobs", '{"input": "x"}', 503),
        ):
            try:
                status = node.request(method, path, body, timeout=5)[0]
            except INTERRUPTED as error:
                status = error
            if status != expected:
                self.history.add_violation(f"{node.name} without the database: {method} {path}: {status}")


class Reply(Trial):
    """Connections end after a commit and before its reply."""
    times, has_proxies = (30, 1000), True

    def strike(self):
        lost = sum(proxy.lost for proxy in self.proxies)
        for proxy in self.proxies:
            proxy.share_lost = 0.2
        while sum(proxy.lost for proxy in self.proxies) == lost:
            time.sleep(0.01)

    def breathe(self):
        time.sleep(0.2 * self.dice.random())

    def run_long_jobs(self):
        pass  # faults come too fast

    def await_nodes(self):
        for proxy in self.proxies:
            proxy.share_lost = 0


class FailOver(Trial):
    """The database dies, and its standby takes its place."""
    times = (2, 20)

    def make_database(self, directory):
        return ReplicatedDatabase(directory)

    def ports(self):
        return [self.database.primary.port, self.database.standby.port]

    def strike(self):
        self.database.fail_over()

    def await_nodes(self):
        super().await_nodes()
        self.database.replicate()


TRIALS = {"calm": Calm, "elsewhere": Elsewhere, "kill": Kill, "stop": Stop, "restart": Restart, "cut": Cut, "reply": Reply, "fail-over": FailOver}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/cluster-loop", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=TRIALS, action="append", help="this trial (all); may be given again")
    parser.add_argument("--full", action="store_true", help="as many faults as a release wants; hours")
    parser.add_argument("--times", type=int, help="so many faults in each trial")
    parser.add_argument("--nodes", type=int, default=3, help="nodes (3)")
    parser.add_argument("--clients", type=int, default=6, help="client threads (6)")
    parser.add_argument("--seconds-between", type=float, default=1.0, metavar="S", help="mean time between faults (1)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the load and of the faults")
    parser.add_argument("--control", action="store_true", help="break the fencing; the trial 'stop' must fail")
    parser.add_argument("--binary", default="target/debug/nanoclaw", help="the server (target/debug/nanoclaw)")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and databases below this directory")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the servers as well
    if not commands():
        print("SKIPPED: PostgreSQL is not installed (apt-get install postgresql)", file=sys.stderr)
        sys.exit(77)
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    found = 0
    for name in arguments.only or TRIALS:
        found += run_trial(name, arguments, seed)
    sys.exit(1 if found else 0)


def run_trial(name, arguments, seed):
    """Runs a trial. Returns the number of violations."""
    times = arguments.times or TRIALS[name].times[arguments.full]
    print(f"{name}: {times} times, {arguments.nodes} nodes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"nanoclaw-cluster-{name}-", dir=arguments.keep) as directory:
        owned_directory(directory)
        trial = TRIALS[name](arguments, directory, seed)
        trial.run(times)
        if trial.history.violations:
            print_logs(trial)
    report(trial)
    return len(trial.history.violations)


def print_logs(trial):
    for node in trial.nodes:
        with open(os.path.join(node.directory, "log"), errors="replace") as log:
            print(f"--- the last lines of {node.name}\n" + "".join(log.readlines()[-30:]), file=sys.stderr)


def report(trial):
    rows = {**trial.history.counts, **{name: f"{value:.1f}" for name, value in trial.longest.items()}}
    rows["violations"] = len(trial.history.violations)
    for name, value in rows.items():
        print(f"{name:<36}{value:>8}")
    if trial.history.violations:
        print("\n".join(["", *trial.history.violations[:20]]), file=sys.stderr)


main()
