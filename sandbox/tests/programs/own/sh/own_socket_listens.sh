#!/bin/bash
# class: network
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import socket
s = socket.socket(socket.AF_INET); s.bind(("127.0.0.1", 0)); s.listen(); print("ESCAPED: listens on", s.getsockname()[1])
E
true
