#!/bin/bash
# class: signal
# expect: shell=denied
# note: kill -9 -1: the server must survive. The line is printed only if the signal reached no process of the tree
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
(sleep 0.3; echo 'ESCAPED: something outside the tree still lives, or nothing died') & kill -9 -1; echo alive
