#!/bin/bash
# class: result-forgery
# expect: shell=allowed
# note: a command that kills itself must not pass for a forbidden call's or a limit's victim
# never: ok oom timeout
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
kill -SYS $$; kill -KILL $$
