#!/bin/bash
# class: persistence
# expect: shell=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works; anything else or dying = BLOCKED
(echo '* * * * * root true' >/etc/cron.d/sbx) 2>/dev/null && { rm -f /etc/cron.d/sbx; echo 'ESCAPED: cron.d'; }; (echo true >>/root/.bashrc_sbx) 2>/dev/null && { rm -f /root/.bashrc_sbx; echo 'ESCAPED: a start file'; }; mkdir -p /root/.config/systemd/user 2>/dev/null && (echo >/root/.config/systemd/user/sbx.service) 2>/dev/null && { rm -f /root/.config/systemd/user/sbx.service; echo 'ESCAPED: a unit'; }; true
