// class: cpu
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
({ get [Symbol.toStringTag]() { for (;;); }, constructor: new Proxy(function () { }, { get() { for (;;); } }) })
