#!/bin/bash
# class: file-write
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for d in /dev/shm /tmp /var/tmp /run /etc /root; do (echo x >$d/sbx_pwned) 2>/dev/null && { rm -f $d/sbx_pwned; echo "ESCAPED: wrote $d"; break; }; done; true
