#!/bin/bash
# class: network
# expect: shell=denied
# note: docker, dbus, systemd
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import socket, glob
for path in ["/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/stdout"] + glob.glob("/run/**/*sock*", recursive=True):
    try:
        socket.socket(socket.AF_UNIX).connect(path); print("ESCAPED: connected to", path); break
    except OSError: pass
E
true
