// class: import
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
for (const name of ['std', 'os', 'qjs:std', 'qjs:os', 'bjson', '/tmp/sbx_canary/secret.txt', 'node:fs', 'data:text/javascript,1'])
  try { import(name).then((m) => console.log('ESCAPED: imported ' + name), () => { }) } catch { }
