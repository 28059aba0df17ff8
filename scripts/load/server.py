"""Starts, kills, stops and queries the real server. Each life of the server has the same port and directory."""
import http.client, json, os, signal, socket, subprocess, sys, time

TERMINAL = ("done", "error")
ENDED = ("succeeded", "failed", "cancelled")
# Errors of a call that a crash interrupted. Such a call proves nothing.
INTERRUPTED = (OSError, http.client.HTTPException, ValueError)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class HttpClient:
    """Requests to the port of a subclass."""

    def request(self, method, path, body=None, kind="application/json", timeout=60, key=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = ({"Content-Type": kind} if body else {}) | ({"Idempotency-Key": key} if key else {})
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def frames(self, job, after, limit=None, timeout=60):
        """At most `limit` frames (id, name, data) of a job's delta stream; fewer if the server dies."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        found, frame = [], {}
        try:
            headers = {"Last-Event-ID": str(after)} if after else {}
            connection.request("GET", f"/v1/jobs/{job}/events?format=delta", headers=headers)
            answer = connection.getresponse()
            if answer.status == 204:
                return found
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            while limit is None or len(found) < limit:
                line = answer.readline()
                if not line.endswith(b"\n"):
                    break
                line = line.decode().rstrip("\r\n")
                if line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                    continue
                if "id" in frame and "data" in frame:
                    found.append((int(frame["id"]), frame.get("event", ""), json.loads(frame["data"])))
                frame = {}
        except INTERRUPTED:
            pass
        finally:
            connection.close()
        return found


class Server(HttpClient):
    """The server process and its successors on the same port and directory."""

    def __init__(self, binary, directory, config=None):
        self.binary, self.directory, self.config = binary, directory, config
        self.process, self.starts, self.port = None, [], free_port()

    def start(self):
        began = time.monotonic()
        log = open(os.path.join(self.directory, "log"), "ab")
        command = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data-dir", os.path.join(self.directory, "data")]
        command += ["--config", self.config] if self.config else []
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=self.directory)
        log.close()
        if not self.process.stdout.readline().startswith(b"http://"):
            sys.exit(f"the server does not start; see {self.directory}/log")
        self.starts.append(time.monotonic() - began)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self, timeout):
        """Sends SIGTERM. Returns the exit status, or `None` if the server had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self.process.stdout.close()
        return status
