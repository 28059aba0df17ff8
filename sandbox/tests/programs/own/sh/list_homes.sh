#!/bin/bash
# class: file-read
# expect: shell=denied
# note: names outside the project and the system directories
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for d in / /root /home /tmp /var/lib; do n=$(ls -A "$d" 2>/dev/null | wc -l); [ "$n" -gt 0 ] && { echo "ESCAPED: lists $d"; break; }; done; true
