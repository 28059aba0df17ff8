// class: stack
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  new RegExp('(?:'.repeat(200000) + ')'.repeat(200000)); return ''
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
