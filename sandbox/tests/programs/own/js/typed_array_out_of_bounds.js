// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  const u = new Uint32Array(4);
  for (const i of [4, -1, 2 ** 32, 2 ** 53, 4294967295]) { u[i] = 0x41414141; if (u[i] !== undefined) return 'element ' + i }
  try { new Uint8Array(new ArrayBuffer(8), 9); return 'an offset past the buffer' } catch { }
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
