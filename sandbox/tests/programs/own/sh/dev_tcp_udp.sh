#!/bin/bash
# class: network
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
(exec 3<>/dev/tcp/127.0.0.1/47811) 2>/dev/null && echo 'ESCAPED: tcp'; (echo x >/dev/udp/127.0.0.1/47812) 2>/dev/null && echo 'ESCAPED: udp'; true
