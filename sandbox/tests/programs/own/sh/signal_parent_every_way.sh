#!/bin/bash
# class: signal
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
kill -0 $PPID 2>/dev/null && echo 'ESCAPED: may signal the parent'; kill -0 1 2>/dev/null && echo 'ESCAPED: may signal process 1'; python3 -c 'import os; os.kill(os.getppid(), 0)' 2>/dev/null; /bin/kill -0 $PPID 2>/dev/null && echo 'ESCAPED: /bin/kill may'; true
