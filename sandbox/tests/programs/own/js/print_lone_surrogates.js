// class: output
// expect: lenient=allowed standard=allowed strict=allowed
// never: ok sandbox_error crash
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
for (let i = 0; i < 100; i++) console.log('\ud800'.repeat(1000)); throw '\udfff'.repeat(20000)
