// class: cpu
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: a timer whose time is not a number
// never: ok sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
Math.max = () => NaN;
setInterval(() => { }, 0);
