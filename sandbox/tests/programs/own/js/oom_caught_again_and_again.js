// class: memory
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: a program that catches every out-of-memory error
// never: ok sandbox_error
// control: destructive
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
const held = []; for (;;) try { held.push(new Uint8Array(1 << 20).fill(1)) } catch { }
