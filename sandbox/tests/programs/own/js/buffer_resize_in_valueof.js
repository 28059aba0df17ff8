// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  const b = new ArrayBuffer(64, { maxByteLength: 1 << 16 }), u = new Uint8Array(b);
  u.fill(7);
  u.copyWithin(0, { valueOf() { b.resize(1); return 32 } }, 64);
  u.fill({ valueOf() { b.resize(0); return 9 } });
  const d = new DataView(new ArrayBuffer(8));
  try { d.setUint8(8, 1); return 'wrote past a view' } catch { }
  return u.length ? 'a view longer than its buffer' : ''
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
