#!/bin/bash
# class: persistence
# expect: shell=denied
# note: must end with the run
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
setsid sh -c 'sleep 1; echo x >/tmp/sbx_canary/late_setsid' >/dev/null 2>&1 </dev/null & 
setsid sleep 77 >/dev/null 2>&1 </dev/null & sleep 0.1; exit 0
