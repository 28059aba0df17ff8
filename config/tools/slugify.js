// A tool without any permission: it computes.
//
// Put files like this one into the directory that `tools_dir` of the configuration names. Each *.js there that has one
// `export default { … }` at the beginning of a line becomes a tool, at once; a file that has changed is read again with the next
// call. `nanoclaw tools` shows what is there; what is wrong with a file stands in the server's log.
//
// The file runs in the sandbox, with the language alone: no import, no require, no network, no files but through `host`.
// Its functions and constants are its own.

const UMLAUTS = { ä: 'ae', ö: 'oe', ü: 'ue', ß: 'ss' };

export default {
  // What models call: lower-case letters, digits and '_'.
  name: 'slugify',
  // For models: what it does and when to use it.
  description: 'Turn a title into a slug for a URL: lower-case ASCII words joined by hyphens.',
  // JSON Schema of the arguments; what does not fit never reaches the handler.
  parameters: {
    type: 'object',
    properties: {
      title: { type: 'string', minLength: 1, description: 'The title' },
      max_chars: { type: 'integer', minimum: 1, maximum: 200, default: 80 },
    },
    required: ['title'],
    additionalProperties: false,
  },
  // Running it twice is the same as running it once: a call that a crash cut off is made again.
  idempotent: true,
  // It is a pure read: an earlier result may stand for a new one for a while.
  cacheable: true,
  // The wall clock of one run, seconds (30 if left out).
  timeout_s: 5,

  // May be async. What it returns is the result (as JSON); what it throws is the error that the model is told.
  handler({ title, max_chars = 80 }) {
    const plain = title
      .toLowerCase()
      .replace(/[äöüß]/g, (letter) => UMLAUTS[letter])
      .normalize('NFD')
      .replace(/[\u0300-\u036f]/g, '');
    const slug = plain.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, max_chars).replace(/-+$/, '');
    if (!slug) throw new Error('nothing is left of this title: give one with letters or digits');
    return { slug };
  },
};
