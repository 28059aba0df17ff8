// class: stack
// expect: lenient=allowed standard=allowed strict=allowed
// note: freeing a long chain must not recurse
// never: ok sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
let o = []; for (let i = 0; i < 1000000; i++) o = [o]; o = null; throw 'done'
