// The official SDK for Node.js: client.mjs http URL, or client.mjs stdio COMMAND…
import assert from 'node:assert/strict';
import {Client} from '@modelcontextprotocol/sdk/client/index.js';
import {StdioClientTransport} from '@modelcontextprotocol/sdk/client/stdio.js';
import {StreamableHTTPClientTransport} from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [kind, ...target] = process.argv.slice(2);
const transport = kind === 'http'
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({command: target[0], args: target.slice(1), stderr: 'ignore'});
const client = new Client({name: 'node', version: '1'});
await client.connect(transport);
const call = (name, args, options) => client.callTool({name, arguments: args}, undefined, options);

await client.ping();
const {tools} = await client.listTools();
assert.ok(tools.some(tool => tool.name === 'run_python'), JSON.stringify(tools));
const python = await call('run_python', {code: 'print(6 * 7)'});
assert.equal(python.structuredContent.output, '42\n');
const failed = await call('run_shell', {command: 'exit 3'});
assert.equal(failed.isError, true);
console.log('tools');

const seen = [];
await call('run_shell', {command: 'sleep 3'}, {onprogress: progress => seen.push(progress.progress)});
assert.ok(seen.length > 0 && seen.every((at, index) => index === 0 || at > seen[index - 1]), String(seen));
console.log('progress');

const stop = new AbortController();
setTimeout(() => stop.abort(), 1000);
await assert.rejects(call('run_shell', {command: 'sleep 600', timeout: 600}, {signal: stop.signal}));
console.log('cancellation');

const job = (await call('submit_job', {input: 'hello'})).structuredContent;
const ended = (await call('wait_job', {job_id: job.id, timeout_s: 30})).structuredContent;
assert.equal(ended.status, 'succeeded');
const page = (await call('job_events', {job_id: job.id})).structuredContent;
assert.equal(page.events.at(-1).event, 'done');
console.log('jobs');

await call('run_shell', {command: 'echo kept > note.txt'});
const resources = [];
for (let cursor; ;) {
  const page = await client.listResources({cursor});
  resources.push(...page.resources);
  if (!(cursor = page.nextCursor)) break;
}
const note = resources.find(resource => resource.uri.endsWith('/note.txt'));
const read = await client.readResource({uri: note.uri});
assert.equal(read.contents[0].text, 'kept\n');
assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 2);
console.log('resources');

if (kind === 'http') await transport.terminateSession();
await client.close();
