#!/bin/bash
# class: file-write
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
ulimit -Sc unlimited 2>/dev/null; sh -c 'kill -SEGV $$' 2>/dev/null; [ "$(ulimit -Hc)" = 0 ] || echo "ESCAPED: core dumps up to $(ulimit -Hc)"; ls core* 2>/dev/null | grep -q . && echo 'ESCAPED: a core file'; true
