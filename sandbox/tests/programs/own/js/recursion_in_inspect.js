// class: stack
// expect: lenient=allowed standard=allowed strict=allowed
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
let o = []; for (let i = 0; i < 100000; i++) o = { o, get [Symbol.iterator]() { return o } }; o
