// class: memory
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// never: ok sandbox_error crash
// control: destructive
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
let s = 'x'; const held = []; for (;;) { held.push(s); s = s.length < 1e8 ? s + s : 'y' + held.length }
