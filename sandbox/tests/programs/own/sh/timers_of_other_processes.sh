#!/bin/bash
# class: proc-peek
# expect: shell=denied
# note: a timer on the clock of another process shows whether it runs and how busy it is
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E' 2>/dev/null
import ctypes, os, socket, struct
l = ctypes.CDLL(None, use_errno=True)
def call(n, *a):
    return l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
t = ctypes.c_int()
if call(222, (~1 << 3) | 2, 0, ctypes.byref(t)) == 0:
    print("ESCAPED: a timer on process 1")
E
true
