#!/bin/bash
# class: privilege
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
mkdir -p m && mount -t tmpfs x m 2>/dev/null && { umount m; echo 'ESCAPED: mounted'; }; chroot / true 2>/dev/null && echo 'ESCAPED: chroot'; true
