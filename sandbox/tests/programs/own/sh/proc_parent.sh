#!/bin/bash
# class: proc-peek
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for n in maps mem status cmdline root/etc/passwd; do head -c 1 /proc/$PPID/$n >/dev/null 2>&1 && { echo "ESCAPED: /proc/$PPID/$n"; break; }; done; readlink /proc/$PPID/exe >/dev/null && echo 'ESCAPED: exe of the parent'; true
