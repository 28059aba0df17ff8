#!/bin/bash
# class: disk
# expect: shell=allowed
# note: the clean-up must not recurse
# never: sandbox_error
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
python3 - <<'E'
import os
for n in range(5000):
    os.mkdir("d"); os.chdir("d")
E
true
