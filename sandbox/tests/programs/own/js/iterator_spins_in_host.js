// class: cpu
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: the host's own spread runs the guest's iterator
// never: sandbox_error ok
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1 };
setTimeout(() => { }, 1);
