// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// never: ok sandbox_error oom crash
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
throw { get message() { throw { get message() { throw null } } }, toString() { throw null }, [Symbol.toPrimitive]() { throw null } }
