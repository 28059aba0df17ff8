// A tool that reads and writes files of the job's project. Its calls fail if the job has no project.

const FILE = 'TODO.md';

export default {
  name: 'todo',
  description: 'Keep a to-do list in the project (TODO.md): add an entry, mark one as done by its number, or list them all.',
  parameters: {
    type: 'object',
    properties: {
      action: { type: 'string', enum: ['add', 'done', 'list'] },
      text: { type: 'string', maxLength: 500, description: 'The entry, for add' },
      number: { type: 'integer', minimum: 1, description: 'Which entry, for done; counted from 1' },
    },
    required: ['action'],
    additionalProperties: false,
  },
  permissions: {
    // 'read' allows host.readFile and host.listFiles; 'write' also allows host.writeFile. Paths must stay in
    // the job's project.
    files: 'write',
  },

  handler({ action, text, number }, host) {
    const exists = host.listFiles('.').files.some((file) => file.name === FILE);
    const lines = exists ? host.readFile(FILE).split('\n').filter((line) => line.startsWith('- [')) : [];
    if (action === 'add') {
      if (!text) throw new Error('add needs a text');
      lines.push(`- [ ] ${text.replace(/\s+/g, ' ').trim()}`);
    }
    if (action === 'done') {
      if (!lines[number - 1]) throw new Error(`there is no entry ${number}; there are ${lines.length}`);
      lines[number - 1] = lines[number - 1].replace('- [ ]', '- [x]');
    }
    if (action !== 'list') host.writeFile(FILE, lines.join('\n') + '\n');
    return { entries: lines.map((line, at) => ({ number: at + 1, done: line.startsWith('- [x]'), text: line.slice(6) })) };
  },
};
