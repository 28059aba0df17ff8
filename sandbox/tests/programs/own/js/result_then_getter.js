// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// note: a thenable prototype before the host reads the value
// never: ok sandbox_error oom
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
Object.defineProperty(Object.prototype, 'then', { configurable: true, get() { return (f) => f('forged') } });
Object.defineProperty(Object.prototype, 'value', { configurable: true, get() { return 'forged' } });
throw 1
