"""Nodes of a cluster, and the cluster as a client behind a load balancer sees it."""
import json, os, random, signal, time

from server import INTERRUPTED, HttpClient, Server

CONFIG = """
default_model: demo
models: [{{id: demo, provider: demo}}, {{id: wire, api_url: "{world}/v1"}}]
workers: 8
store: {{url: "{url}", node_name: {name}, lease_s: {lease_s}{more}}}
channels: {{effects: {{type: webhook, url: "{world}/effect"}}}}
webhooks: {{allow_private_addresses: [127.0.0.1]}}
limits: {{drain_s: 2}}
"""


class Node(Server):
    """One server of the cluster."""

    def __init__(self, binary, directory, name, options):
        self.name = name
        home = os.path.join(directory, name)
        os.mkdir(home)
        config = os.path.join(home, "config.yml")
        with open(config, "w") as file:
            file.write(CONFIG.format(name=name, **options))
        super().__init__(binary, home, config)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def losses(self):
        """How often the node has given its jobs up, as its log says."""
        with open(os.path.join(self.directory, "log"), errors="replace") as log:
            return log.read().count("this node has lost its jobs")

    def is_ready(self):
        try:
            return self.request("GET", "/readyz", timeout=5)[0] == 200
        except INTERRUPTED:
            return False


class Cluster(HttpClient):
    """All nodes; each request goes to one at random."""

    def __init__(self, nodes, seed):
        self.nodes, self.dice = nodes, random.Random(seed)

    @property
    def port(self):
        return self.dice.choice(self.nodes).port

    def others(self, node):
        return [other for other in self.nodes if other is not node]

    def wait_until_ready(self, timeout):
        """Seconds until all nodes are ready; `None` if they are not in time."""
        began = time.monotonic()
        for node in self.nodes:
            while not node.is_ready():
                if time.monotonic() > began + timeout:
                    return None
                time.sleep(0.05)
        return time.monotonic() - began

    def backlog(self):
        """Queued jobs, at most 100."""
        return len(json.loads(self.request("GET", "/v1/jobs?status=queued&limit=100", timeout=5)[1]).get("data", []))
