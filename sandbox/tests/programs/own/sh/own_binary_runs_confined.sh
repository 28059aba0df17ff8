#!/bin/bash
# class: exec
# expect: shell=denied
# note: it may run, but must be confined
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
cp /bin/cat ./mycat 2>/dev/null && chmod +x mycat 2>/dev/null && ./mycat /tmp/sbx_canary/secret.txt 2>/dev/null && echo 'ESCAPED: a copied program read the canary'; printf '#!/bin/sh\ncat /tmp/sbx_canary/secret.txt && echo ESCAPED: a script\n' >s.sh; chmod +x s.sh 2>/dev/null; ./s.sh 2>/dev/null; true
