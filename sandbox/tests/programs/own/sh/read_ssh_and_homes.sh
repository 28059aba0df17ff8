#!/bin/bash
# class: file-read
# expect: shell=denied
# note: the server's own home
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for f in /root/.ssh/* /root/.bash_history /home/*/.ssh/* /root/.profile /root/.bashrc; do head -c 1 "$f" >/dev/null 2>&1 && { echo "ESCAPED: read $f"; break; }; done; true
