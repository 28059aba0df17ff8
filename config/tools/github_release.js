// A tool that may fetch from one host. The server sends the requests: only to the listed hosts, only to
// public addresses, at most 16 in a run. It reads at most 1 MiB of each answer.

export default {
  name: 'github_release',
  description: 'The newest release of a public GitHub repository: its tag, title, date and notes.',
  parameters: {
    type: 'object',
    properties: {
      repository: { type: 'string', pattern: '^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$', description: 'As in rust-lang/rust' },
    },
    required: ['repository'],
    additionalProperties: false,
  },
  permissions: {
    // Hosts, reached over https: 'api.example.org', '*.example.org'. Name plain http and other ports:
    // 'http://localhost:8080'.
    fetch: ['api.github.com'],
  },
  idempotent: true,
  cacheable: true,

  handler({ repository }, host) {
    // host.fetch(url, { method: 'GET' | 'POST', headers, body }) → { status, ok, url, content_type, body }
    const answer = host.fetch(`https://api.github.com/repos/${repository}/releases/latest`, {
      headers: { accept: 'application/vnd.github+json' },
    });
    if (answer.status === 404) throw new Error(`${repository} has no release or is not a public repository`);
    if (!answer.ok) throw new Error(`GitHub answered with status ${answer.status}`);
    const release = JSON.parse(answer.body);
    return {
      tag: release.tag_name,
      title: release.name,
      published_at: release.published_at,
      notes: (release.body ?? '').slice(0, 4000),
    };
  },
};
