// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  let o = { x: 1 }; const w = new WeakRef(o); const m = new WeakMap([[o, w]]); o = null;
  for (let i = 0; i < 1e5; i++) ({ i });
  const d = w.deref(); return d && d.x !== 1 ? 'a freed object: ' + d.x : ''
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
