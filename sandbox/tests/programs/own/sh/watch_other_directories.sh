#!/bin/bash
# class: proc-peek
# expect: shell=denied
# note: inotify needs only read permission: landlock has no rule for it
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import ctypes, os, socket, struct
l = ctypes.CDLL(None, use_errno=True)
def call(n, *a):
    return l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
f = call(294, 0)
if f >= 0 and call(254, f, b"/tmp/sbx_canary", 0xfff) > 0:
    print("ESCAPED: watches what others do in the canary's directory")
E
true
