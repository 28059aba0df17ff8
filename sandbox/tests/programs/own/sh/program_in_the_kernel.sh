#!/bin/bash
# class: syscall
# expect: shell=denied
# note: a classic packet filter is compiled into kernel memory
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import ctypes, os, socket, struct
l = ctypes.CDLL(None, use_errno=True)
def call(n, *a):
    return l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
a, b = socket.socketpair()
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xffff))
if call(54, a.fileno(), 1, 26, struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)), 16) == 0:
    print("ESCAPED: a packet filter is in force")
E
true
