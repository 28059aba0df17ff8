// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// note: replaces every builtin that the prelude could use later
// never: ok sandbox_error oom
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
for (const p of [Function.prototype, Array.prototype, String.prototype, RegExp.prototype, Map.prototype, Promise.prototype, Error.prototype, Object])
  for (const k of Reflect.ownKeys(p)) if (k !== 'constructor') try { p[k] = () => '\ud800' } catch { }
throw new Error('x')
