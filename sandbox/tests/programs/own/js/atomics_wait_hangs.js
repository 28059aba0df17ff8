// class: limit-evasion
// expect: lenient=denied standard=denied strict=denied
// note: a futex inside the engine
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0); return 'it blocks out of the deadline\'s sight'
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
