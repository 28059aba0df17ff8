#!/bin/bash
# class: file-write
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
mkfifo fifo 2>/dev/null && echo 'ESCAPED: a fifo left behind'; mknod null c 1 3 2>/dev/null && echo 'ESCAPED: a device'; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock"); print("ESCAPED: a socket left behind")' 2>/dev/null; true
