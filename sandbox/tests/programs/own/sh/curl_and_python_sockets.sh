#!/bin/bash
# class: network
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
curl -s -m 2 telnet://127.0.0.1:47811 </dev/null >/dev/null 2>&1; [ $? = 0 ] || [ $? = 28 ] && :; python3 -c 'import socket; socket.create_connection(("127.0.0.1", 47811), 1); print("ESCAPED: tcp by python")' 2>/dev/null; python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", 47812)); print("ESCAPED: udp by python")' 2>/dev/null; true
