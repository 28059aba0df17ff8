#!/bin/bash
# class: link-race
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
echo mine >mine; ln -s mine link; (while :; do ln -sfn /tmp/sbx_canary/secret.txt link; ln -sfn mine link; done) 2>/dev/null & r=$!; n=0; while [ $n -lt 300 ]; do grep -q SBX_CANARY link 2>/dev/null && { echo 'ESCAPED: the race was won'; break; }; n=$((n+1)); done; kill $r 2>/dev/null; true
