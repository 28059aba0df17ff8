#!/bin/bash
# class: privilege
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
nsenter -t 1 -m true 2>/dev/null && echo 'ESCAPED: nsenter'; true
