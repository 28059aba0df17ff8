#!/bin/bash
# class: file-write
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
echo x >held; chattr +i held 2>/dev/null && { chattr -i held; echo 'ESCAPED: a file that nobody could remove'; }; true
