"""What was counted and what was found wrong from outside a server. Owns the lock around it and how a violation is told; knows
nothing of jobs."""
import sys, threading


class Verdict:
    """Shared by all clients; what they know beside it stands under the same lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        self.violations = []

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def blame(self, what):
        with self.lock:
            self.violations.append(what)
        print("VIOLATION:", what[:2000], file=sys.stderr, flush=True)
