#!/bin/bash
# class: output
# expect: shell=killed-by-limit
# note: a flood from a child process
# never: ok sandbox_error
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
yes "$(head -c 4000 /dev/zero | tr '\0' x)"
