// A tool without any permission. It only computes.
//
// Put files like this one into the directory that `tools_dir` in the configuration names. Each *.js file
// there with one `export default { … }` at the beginning of a line becomes a tool at once. The server reads
// a changed file again at the next call. `nanoclaw tools` lists the tools. Mistakes in a file are in the log.
//
// The file runs in the sandbox, without import and require. It reaches network and files only through `host`.
// Other tools cannot access its functions and constants.

const UMLAUTS = { ä: 'ae', ö: 'oe', ü: 'ue', ß: 'ss' };

export default {
  // The name that models call: lower-case letters, digits and '_'.
  name: 'slugify',
  // For models: what it does and when to use it.
  description: 'Turn a title into a slug for a URL: lower-case ASCII words joined by hyphens.',
  // JSON Schema of the arguments. The handler never sees arguments that do not match.
  parameters: {
    type: 'object',
    properties: {
      title: { type: 'string', minLength: 1, description: 'The title' },
      max_chars: { type: 'integer', minimum: 1, maximum: 200, default: 80 },
    },
    required: ['title'],
    additionalProperties: false,
  },
  // Running it twice has the same effect as running it once: a call that a crash interrupted runs again.
  idempotent: true,
  // It only reads: a stored result may answer a repeated call for a while.
  cacheable: true,
  // Wall-clock time of one run, in seconds. Default: 30.
  timeout_s: 5,

  // May be async. It returns the result (as JSON). The model gets a thrown error as the tool's error.
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
