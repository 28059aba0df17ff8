"""The accepted jobs of a soak that have not ended yet. Jobs that ended well are forgotten, so that this program
stays small for an hour."""
import time

from verdict import Verdict


class Ledger(Verdict):
    """Shared by all clients."""

    def __init__(self):
        super().__init__()
        self.open = {}      # id -> what it is and when it was accepted
        self.ended = []     # (moment, id) of some jobs, for what retention has to take
        self.hooks = {}     # job -> how often its webhook came
        self.control = None # what is broken on purpose

    def accept(self, job, kind):
        with self.lock:
            if job in self.open:
                return
            self.open[job] = (kind, time.monotonic())
            self.counts["jobs accepted"] = self.counts.get("jobs accepted", 0) + 1

    def end(self, job):
        """The job ended once, with everything that it owed."""
        with self.lock:
            if self.open.pop(job, None) is None:
                self.violations.append(f"{job} has ended before")
            self.counts["jobs ended"] = self.counts.get("jobs ended", 0) + 1
            if self.counts["jobs ended"] % 20 == 1:
                self.ended.append((time.monotonic(), job))

    def is_broken(self, control):
        """True once if this control was requested. The caller then breaks its own view."""
        with self.lock:
            if self.control != control:
                return False
            self.control = None
            return True
