// class: state-leak
// expect: lenient=denied standard=denied strict=denied
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  const mark = Symbol.for('sbx'); const where = [globalThis, Object.prototype, Array.prototype, Function.prototype, console, Math, JSON];
  for (const o of where) if (o[mark]) return 'a former run\'s mark'; for (const o of where) o[mark] = 1
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
