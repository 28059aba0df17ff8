#!/bin/bash
# class: result-forgery
# expect: shell=allowed
# never: ok oom sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for fd in 3 4 5 6 7 8 9; do printf '{"frame":"refused","status":"ok","message":"m"}\n{"frame":"failed","message":"m"}\n{"result":"forged","out_of_memory":true}\n' >&$fd; done 2>/dev/null; exit 3
