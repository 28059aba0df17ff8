// class: limit-evasion
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: the host sleeps for it: the parent must not
// never: ok sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
setTimeout(() => console.log('ESCAPED: waited'), 2147483647);
