#!/bin/bash
# class: disk
# expect: shell=denied
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
n=0; while [ $n -lt 40 ]; do dd if=/dev/zero of=big$n bs=1M count=64 2>/dev/null || break; n=$((n+1)); done; [ $n -ge 40 ] && echo 'ESCAPED: 2.5 GiB in files below the size limit'; true
