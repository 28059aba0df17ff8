#!/bin/bash
# class: exec
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
printf '#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void f(void){FILE*x=fopen("/tmp/sbx_canary/secret.txt","r");if(x)puts("ESCAPED: preloaded code read the canary");}\n' >p.c; cc -shared -fPIC -o p.so p.c 2>/dev/null && LD_PRELOAD=./p.so /bin/true; true
