#!/bin/bash
# class: limit-evasion
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for l in v u n f t; do before=$(ulimit -H$l); ulimit -S$l unlimited 2>/dev/null; ulimit -H$l unlimited 2>/dev/null; [ "$(ulimit -H$l)" = "$before" ] || echo "ESCAPED: ulimit -$l from $before to $(ulimit -H$l)"; [ "$before" = unlimited ] && echo "ESCAPED: ulimit -$l has no bound"; done; prlimit --pid $PPID --nofile 2>/dev/null | grep -q NOFILE && echo 'ESCAPED: limits of the parent'; true
