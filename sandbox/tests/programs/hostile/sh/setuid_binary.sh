#!/bin/sh
# class: privilege
# expect: lenient=denied standard=denied strict=denied
# note: set-id programs gain nothing only under no-new-privs. Commands cannot read /proc/self/status, so the kernel is asked where that is closed
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
n=$(grep -m1 NoNewPrivs /proc/self/status 2>/dev/null | tr -dc 01); [ -n "$n" ] || n=$(python3 -c 'import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))'); test "$n" = 1 || echo 'ESCAPED: no_new_privs is off'
