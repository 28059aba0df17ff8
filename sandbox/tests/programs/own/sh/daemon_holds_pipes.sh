#!/bin/bash
# class: limit-evasion
# expect: shell=denied
# note: a child that keeps standard output open must not delay the answer
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
sleep 77 & exit 0
