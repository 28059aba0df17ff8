// openai-node: chat completions, responses (over a WebSocket, too), files and batches.
import OpenAI, {toFile} from 'openai';
import {zodResponseFormat, zodTextFormat} from 'openai/helpers/zod';
import {ResponsesWS} from 'openai/resources/responses/ws';
import {z} from 'zod';
import {all, assert, city, crash, png, run, seen, slowText, url} from './common.mjs';

const client = new OpenAI({baseURL: url, apiKey: 'unused', maxRetries: 0});
const model = 'scripted';
const messages = content => [{role: 'user', content}];
const Event = z.object({name: z.string(), day: z.string(), guests: z.array(z.string())});
const chatTool = {type: 'function', function: {name: 'weather', parameters: city}};
const tool = {type: 'function', name: 'weather', parameters: city, strict: true};

await run({
  async 'chat'() {
    const answer = await client.chat.completions.create({model, messages: messages('hello')});
    assert.equal(answer.choices[0].message.content, 'You said: hello');
    assert.equal(answer.usage.total_tokens, 15);
  },
  async 'chat stream'() {
    const stream = client.chat.completions.stream(
      {model, messages: messages('hello'), stream_options: {include_usage: true}});
    assert.equal(await stream.finalContent(), 'You said: hello');
    assert.equal((await stream.totalUsage()).total_tokens, 15);
  },
  async 'chat tools'() {
    const weather = {
      type: 'function',
      function: {
        name: 'weather', description: 'd', parameters: city, parse: JSON.parse, function: ({city}) => `mild ${city}`,
      },
    };
    for (const stream of [false, true]) {
      const runner = client.chat.completions.runTools(
        {model, messages: messages('weather Rome Oslo'), tools: [weather], stream});
      assert.equal(await runner.finalContent(), '2 results: mild Oslo');
    }
  },
  async 'chat tools in pieces'() {
    const stream = client.chat.completions.stream(
      {model, messages: messages('weather Rome Oslo'), tools: [chatTool]});
    const pieces = [[], []];
    stream.on('tool_calls.function.arguments.delta', ({index, arguments_delta}) => pieces[index].push(arguments_delta));
    const {tool_calls: calls} = await stream.finalMessage();
    assert.deepEqual(calls.map(call => JSON.parse(call.function.arguments).city), ['Rome', 'Oslo']);
    assert.ok(pieces.every(texts => texts.length > 1));
    assert.deepEqual(pieces.map(texts => texts.join('')), calls.map(call => call.function.arguments));
  },
  async 'chat structured output'() {
    const answer = await client.chat.completions.parse(
      {model, messages: messages('event'), response_format: zodResponseFormat(Event, 'event')});
    assert.deepEqual(answer.choices[0].message.parsed.guests, ['Ann', 'Bob']);
  },
  async 'images'() {
    const image = `data:image/png;base64,${png}`;
    const parts = [{type: 'text', text: 'look'}, {type: 'image_url', image_url: {url: image}}];
    const answer = await client.chat.completions.create({model, messages: messages(parts)});
    assert.equal(answer.choices[0].message.content, seen);
    const content = [{type: 'input_text', text: 'look'}, {type: 'input_image', image_url: image, detail: 'auto'}];
    const response = await client.responses.create({model, input: [{role: 'user', content}]});
    assert.equal(response.output_text, seen);
  },
  async 'responses'() {
    const response = await client.responses.create({model, input: 'hello'});
    assert.equal(response.output_text, 'You said: hello');
    const parsed = await client.responses.parse({model, input: 'event', text: {format: zodTextFormat(Event, 'event')}});
    assert.equal(parsed.output_parsed.day, 'Friday');
  },
  async 'responses stream'() {
    const stream = client.responses.stream({model, input: 'hello'});
    const events = await all(stream);
    assert.deepEqual(events.map(event => event.sequence_number), [...events.keys()]);
    assert.equal((await stream.finalResponse()).output_text, 'You said: hello');
  },
  async 'responses tools'() {
    const first = await client.responses.create({model, input: 'weather Rome Oslo', tools: [tool]});
    const results = first.output.filter(item => item.type === 'function_call')
      .map(({call_id}) => ({type: 'function_call_output', call_id, output: 'mild'}));
    const second = await client.responses.create(
      {model, previous_response_id: first.id, input: results, tools: [tool]});
    assert.equal(second.output_text, '2 results: mild');
  },
  async 'responses tools in pieces'() {
    const stream = client.responses.stream({model, input: 'weather Rome Oslo', tools: [tool]});
    const events = await all(stream);
    assert.deepEqual(events.map(event => event.sequence_number), [...events.keys()]);
    const calls = (await stream.finalResponse()).output;
    assert.deepEqual(calls.map(call => JSON.parse(call.arguments).city), ['Rome', 'Oslo']);
    for (const {id, arguments: whole} of calls) {
      const pieces = events.filter(event => event.type.endsWith('arguments.delta') && event.item_id === id);
      assert.ok(pieces.length > 1);
      assert.equal(pieces.map(event => event.delta).join(''), whole);
    }
  },
  async 'responses over a WebSocket'() {
    const socket = new ResponsesWS(client);
    const turn = async fields => {
      const events = [];
      const ended = new Promise((resolve, reject) => {
        const take = event => {
          events.push(event);
          if (event.type === 'response.completed') {
            socket.off('event', take);
            resolve(event.response);
          }
        };
        socket.on('event', take);
        socket.once('error', reject);
      });
      socket.send({type: 'response.create', model, store: false, ...fields});
      const response = await ended;
      assert.deepEqual(events.map(event => event.sequence_number), [...events.keys()]);
      return response;
    };
    const first = await turn({input: 'weather Rome', tools: [tool]});
    const [call] = first.output.filter(item => item.type === 'function_call');
    const input = [{type: 'function_call_output', call_id: call.call_id, output: 'mild'}];
    const second = await turn({input, tools: [tool], previous_response_id: first.id});
    assert.equal(second.output[0].content[0].text, '1 results: mild');
    socket.close();
  },
  async 'background, resumed after kill -9'() {
    const events = [];
    for await (const event of await client.responses.create({model, input: 'slow', background: true, stream: true})) {
      events.push(event);
      if (events.length === 12) break;
    }
    await crash();
    const id = events[0].response.id;
    const rest = {stream: true, starting_after: events.at(-1).sequence_number};
    events.push(...await all(await client.responses.retrieve(id, rest)));
    assert.deepEqual(events.map(event => event.sequence_number), [...events.keys()]);
    assert.equal((await client.responses.retrieve(id)).output_text, slowText);
  },
  async 'files and batch'() {
    const body = {model, messages: messages('hello')};
    const line = JSON.stringify({custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body});
    const file = await client.files.create({file: await toFile(Buffer.from(line), 'in.jsonl'), purpose: 'batch'});
    let batch = await client.batches.create(
      {input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h'});
    for (let tries = 0; tries < 200 && batch.status !== 'completed'; tries += 1) {
      await new Promise(next => setTimeout(next, 50));
      batch = await client.batches.retrieve(batch.id);
    }
    const output = JSON.parse(await (await client.files.content(batch.output_file_id)).text());
    assert.equal(output.response.body.choices[0].message.content, 'You said: hello');
    assert.ok((await client.files.delete(file.id)).deleted);
  },
  async 'errors'() {
    const refused = client.chat.completions.create({model, messages: messages('x'), n: 2});
    await assert.rejects(refused, error => error instanceof OpenAI.BadRequestError && error.param === 'n');
    await assert.rejects(client.models.retrieve('gone'), OpenAI.NotFoundError);
  },
});
