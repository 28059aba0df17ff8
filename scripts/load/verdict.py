"""Counts and violations, shared by all clients."""
import sys, threading


class Verdict:
    """Counts and violations. The lock also protects the data of subclasses."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        self.violations = []

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def add_violation(self, what):
        with self.lock:
            self.violations.append(what)
        print("VIOLATION:", what[:2000], file=sys.stderr, flush=True)
