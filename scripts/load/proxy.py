"""A network of the trial: a proxy between one node and the database, which can be cut, or lose replies to commits."""
import random, socket, struct, threading

# The database's reply to a commit: CommandComplete with the tag COMMIT.
COMMITTED = b"C" + struct.pack("!I", 11) + b"COMMIT\0"


class Proxy:
    """Forwards connections to a port."""

    def __init__(self, target, seed):
        self.target, self.dice = target, random.Random(seed)
        self.flows = threading.Event()  # what is sent while it is not set arrives later
        self.flows.set()
        self.is_cut, self.share_lost, self.lost = False, 0, 0
        self.at_commit = None  # runs once, instead of the next commit
        self.lock, self.pairs = threading.Lock(), set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def cut(self):
        """Ends all connections and refuses new ones until `join`."""
        self.is_cut = True
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            close(pair)

    def delay(self):
        """Holds everything back until `join`, as a network does that loses packets for a while."""
        self.flows.clear()

    def join(self):
        self.is_cut = False
        self.flows.set()

    def accept(self):
        while True:
            node, _ = self.listener.accept()
            try:
                database = None if self.is_cut else socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                database = None
            if database is None:
                node.close()
                continue
            pair = (node, database)
            with self.lock:
                self.pairs.add(pair)
            for end in pair:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way in (pair, pair[::-1]):
                threading.Thread(target=self.forward, args=(pair, *way), daemon=True).start()

    def forward(self, pair, source, sink):
        try:
            while chunk := source.recv(65536):
                self.flows.wait()
                if source is pair[0] and b"COMMIT\0" in chunk and self.take_trap():
                    break
                if source is pair[1] and COMMITTED in chunk and self.dice.random() < self.share_lost:
                    self.lost += 1
                    break
                sink.sendall(chunk)
        except OSError:
            pass
        close(pair)
        with self.lock:
            self.pairs.discard(pair)


    def take_trap(self):
        with self.lock:
            trap, self.at_commit = self.at_commit, None
        return bool(trap) and (trap() or True)


def close(pair):
    for end in pair:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
