"""The accepted jobs of a soak that have not ended yet. Ended jobs are removed, so that this program stays small for
an hour."""
import time

from verdict import Verdict


class Ledger(Verdict):
    """The accepted jobs of all clients."""

    def __init__(self):
        super().__init__()
        self.open = {}      # id -> (kind, time of acceptance)
        self.ended = []     # (time, id) of some ended jobs, which retention must remove
        self.hooks = {}     # job -> its webhooks
        self.control = None # the requested control that has not run yet

    def accept(self, job, kind):
        with self.lock:
            if job in self.open:
                return
            self.open[job] = (kind, time.monotonic())
            self.counts["jobs accepted"] = self.counts.get("jobs accepted", 0) + 1

    def end(self, job):
        """Records the end of a job whose stream and result were checked."""
        with self.lock:
            if self.open.pop(job, None) is None:
                self.violations.append(f"{job} ended twice")
            self.counts["jobs ended"] = self.counts.get("jobs ended", 0) + 1
            if self.counts["jobs ended"] % 20 == 1:
                self.ended.append((time.monotonic(), job))

    def take_control(self, control):
        """True once if this control was requested. The caller then falsifies its frames."""
        with self.lock:
            if self.control != control:
                return False
            self.control = None
            return True
