#!/bin/bash
# class: result-forgery
# expect: shell=allowed
# note: a command that kills itself must not look like a forbidden call or a reached limit
# never: ok oom timeout
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
kill -SYS $$; kill -KILL $$
