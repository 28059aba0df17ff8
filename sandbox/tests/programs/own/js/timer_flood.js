// class: cpu
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// never: ok sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
let n = 0; const more = () => { for (let i = 0; i < 1000; i++) setTimeout(more, 0) }; more();
