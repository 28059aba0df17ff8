// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// note: Function.caller in sloppy mode
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  function spy() { const c = spy.caller; return c && !/attack|spy/.test(c.name) ? 'the host\'s function: ' + c : '' }
  return [1].map(spy)[0] || ''
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
