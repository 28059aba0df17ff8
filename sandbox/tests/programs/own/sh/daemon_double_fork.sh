#!/bin/bash
# class: persistence
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
( ( trap '' HUP TERM INT; nohup sh -c 'sleep 1; echo x >/tmp/sbx_canary/late_double; sleep 77' >/dev/null 2>&1 </dev/null & ) & ) ; exit 0
