#!/bin/bash
# class: privilege
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
unshare -r true 2>/dev/null && echo 'ESCAPED: user namespace'; unshare -m true 2>/dev/null && echo 'ESCAPED: mount namespace'; unshare -n true 2>/dev/null && echo 'ESCAPED: network namespace'; true
