// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// never: ok sandbox_error oom crash
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
const p = new Proxy(new Error('x'), { get() { throw p }, getPrototypeOf() { throw p }, has() { throw p }, ownKeys() { throw p } });
throw p
