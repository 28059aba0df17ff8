#!/bin/bash
# class: limit-evasion
# expect: shell=denied
# note: FALLOC_FL_KEEP_SIZE: RLIMIT_FSIZE limits sizes, not blocks
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import ctypes, os, socket, struct
l = ctypes.CDLL(None, use_errno=True)
def call(n, *a):
    return l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
import resource
f = os.open("x", os.O_RDWR | os.O_CREAT)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
call(285, f, 1, 0, 8 << 20)
if os.fstat(f).st_blocks * 512 > 1 << 20:
    print("ESCAPED: takes more blocks than the file size limit allows")
E
true
