// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// note: call sites could hand out the prelude's closures
// never: sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  let seen = ''; Error.prepareStackTrace = (e, frames) => { for (const f of frames) { const g = f.getFunction?.(); const t = f.getThis?.(); if (typeof g === 'function' && /write/.test(String(g))) seen = String(g) } return '' };
  try { console.log({ get a() { throw 1 } }); null.x } catch (e) { e.stack }
  return seen && 'a host function: ' + seen
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
