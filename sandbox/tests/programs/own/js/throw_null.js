// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// never: ok sandbox_error oom
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
throw null
