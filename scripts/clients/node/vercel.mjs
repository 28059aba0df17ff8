// The Vercel AI SDK with its providers for OpenAI, for compatible servers and for Open Responses.
import {createOpenAI} from '@ai-sdk/openai';
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {createOpenResponses} from '@ai-sdk/open-responses';
import {generateText, isStepCount, Output, streamText, tool} from 'ai';
import {z} from 'zod';
import {all, assert, png, run, seen, url} from './common.mjs';

const apiKey = 'unused';
const openai = createOpenAI({baseURL: url, apiKey});
const compatible = createOpenAICompatible(
  {name: 'nanoclaw', baseURL: url, apiKey, includeUsage: true, supportsStructuredOutputs: true});
const openResponses = createOpenResponses({name: 'nanoclaw', url: `${url}/responses`, apiKey});
const Event = z.object({name: z.string(), day: z.string(), guests: z.array(z.string())});
const weather = tool({
  description: 'd', inputSchema: z.object({city: z.string()}), execute: async ({city}) => `mild ${city}`,
});
const models = {
  'openai chat': openai.chat,
  'openai responses': openai.responses,
  'openai-compatible': compatible.chatModel,
  'open-responses': openResponses,
};

function checks(model, agent) {
  const common = {model, maxRetries: 0};
  const tools = {tools: {weather}, stopWhen: isStepCount(3), prompt: 'weather Rome Oslo'};
  return {
    async chat() {
      const {text, usage} = await generateText({...common, prompt: 'hello'});
      assert.equal(text, 'You said: hello');
      assert.equal(usage.totalTokens, 15);
    },
    async stream() {
      const parts = await all(streamText({...common, prompt: 'hello'}).fullStream);
      assert.deepEqual(parts.filter(part => part.type === 'error'), []);
      const text = parts.filter(part => part.type === 'text-delta').map(part => part.text).join('');
      assert.equal(text, 'You said: hello');
    },
    async tools() {
      const {text, steps} = await generateText({...common, ...tools});
      assert.equal(steps[0].toolCalls.length, 2);
      assert.match(text, /^2 results: .*mild Oslo/);
    },
    async 'streamed tools'() {
      const parts = await all(streamText({...common, ...tools}).fullStream);
      assert.deepEqual(parts.filter(part => part.type === 'error'), []);
      assert.equal(parts.filter(part => part.type === 'tool-result').length, 2);
      const calls = parts.filter(part => part.type === 'tool-call');
      assert.deepEqual(calls.map(call => call.input), [{city: 'Rome'}, {city: 'Oslo'}]);
      for (const {toolCallId, input} of calls) {
        const pieces = parts.filter(part => part.type === 'tool-input-delta' && part.id === toolCallId);
        // The provider of Open Responses gathers the pieces itself.
        assert.ok(pieces.length > 1 || model.provider.startsWith('nanoclaw.responses'), model.provider);
        if (pieces.length) assert.deepEqual(JSON.parse(pieces.map(part => part.delta).join('')), input);
      }
    },
    async 'tools of the server, too'() {
      const asked = {...common, ...tools, model: agent, prompt: 'compute'};
      assert.match((await generateText(asked)).text, /2 results: .*mild Rome/);
      const parts = await all(streamText(asked).fullStream);
      assert.deepEqual(parts.filter(part => part.type === 'error'), []);
      assert.match(parts.filter(part => part.type === 'text-delta').map(part => part.text).join(''), /2 results: /);
    },
    async images() {
      const content = [{type: 'text', text: 'look'}, {type: 'file', mediaType: 'image/png', data: png}];
      const {text} = await generateText({...common, messages: [{role: 'user', content}]});
      assert.equal(text, seen);
    },
    async 'structured output'() {
      const {output} = await generateText({...common, prompt: 'event', output: Output.object({schema: Event})});
      assert.deepEqual(output.guests, ['Ann', 'Bob']);
    },
  };
}

for (const [name, model] of Object.entries(models)) {
  await run({[name]: async () => {
    for (const check of Object.values(checks(model('scripted'), model('org/agent')))) await check();
  }});
}
