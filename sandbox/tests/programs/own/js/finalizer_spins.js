// class: cpu
// expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
// note: callbacks that run when the realm ends
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
const r = new FinalizationRegistry(() => { for (;;); });
for (let i = 0; i < 20000; i++) r.register({}, i);
new Promise(() => { });
