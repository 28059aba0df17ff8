"""Forwards connections to the server and keeps what was sent and received last, for the report of a failed check."""
import contextlib, socket, threading

KEPT = 12_000


class Recorder:
    def __init__(self, port):
        self.target, self.log, self.lock = port, b"", threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for name, source, sink in (("sent", client, server), ("received", server, client)):
                threading.Thread(target=self.forward, args=(name, source, sink), daemon=True).start()

    def forward(self, name, source, sink):
        """Copies until the source ends. After the sink has closed it reads on: an answer may come before the request
        has ended, and a client that is still writing would never read it."""
        is_open = True
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self.lock:
                    self.log = (self.log + f"\n--- {name}\n".encode() + data)[-KEPT:]
                is_open = is_open and self.send(sink, data)
        # After a reset as well, which a killed server sends: else a client would use the connection again.
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def send(self, sink, data):
        """Whether the sink took it."""
        try:
            sink.sendall(data)
        except OSError:
            return False
        return True

    def last(self):
        """What was sent and received last."""
        with self.lock:
            return self.log.decode(errors="replace")
