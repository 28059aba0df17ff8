// class: limit-evasion
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: only the child may sleep for the timer, not the parent
// never: ok sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
setTimeout(() => console.log('ESCAPED: waited'), 2147483647);
