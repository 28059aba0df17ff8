#!/bin/bash
# class: privilege
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
for p in sudo su mount passwd newgrp pkexec ping; do f=$(command -v $p) && [ -u "$f" ] && "$f" --version >/dev/null 2>&1; done; su nobody -s /bin/sh -c 'id -u' 2>/dev/null | grep -q 65534 && echo 'ESCAPED: su changed the user'; python3 -c 'import os; os.setuid(65534); print("ESCAPED: setuid")' 2>/dev/null; true
