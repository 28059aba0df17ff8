#!/bin/bash
# class: env-leak
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for p in 1 $PPID /proc/[0-9]*; do p=${p#/proc/}; [ "$p" = $$ ] && continue; tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -q SBX_CANARY && { echo "ESCAPED: environment of $p"; break; }; done; env | grep -q SBX_CANARY && echo 'ESCAPED: own environment'; true
