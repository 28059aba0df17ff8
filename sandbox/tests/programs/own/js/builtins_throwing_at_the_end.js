// class: result-forgery
// expect: lenient=allowed standard=allowed strict=allowed
// never: ok sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
Function.prototype.call = Array.prototype.join = String.prototype.split = () => { throw 1 };
setTimeout(() => { throw new Error('late') }, 1);
({ a: 1 })
