#!/bin/bash
# class: process
# expect: shell=denied
# note: processes that fork while they are killed
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
f() { (f &) ; sleep 0.01; (f &) ; }; f 2>/dev/null; sleep 1; exit 0
