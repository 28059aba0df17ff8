#!/bin/bash
# class: syscall
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
sleep 2 & s=$!; strace -p $s -o /dev/null -e trace=none 2>/dev/null & t=$!; sleep 0.4; grep -q '^TracerPid:[^0-9]*[1-9]' /proc/$s/status 2>/dev/null && echo 'ESCAPED: ptrace'; kill $s $t 2>/dev/null; gdb -p $PPID -batch 2>/dev/null | grep -q 'Inferior 1' && echo 'ESCAPED: gdb on the parent'; true
