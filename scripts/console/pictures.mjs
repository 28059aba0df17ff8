// Draws the pictures of README.md: node pictures.mjs BINARY FOLDER
//
// A scripted provider answers instead of a model; the server, its tools and the console are real.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Server, answer, ask, freePort, launch, openPage, sleep } from "./harness.mjs";

const MOST_BYTES = 150_000;
const CHAT_SIZE = { width: 1200, height: 935 };
const RUN_SIZE = { width: 1200, height: 640 };
const PROGRAM = `import collections
sums = collections.Counter()
orders = "north 1240, south 980, north 610, east 1530, south 1120"
for order in orders.split(", "):
    region, amount = order.split()
    sums[region] += int(amount)
print(*sums.most_common(), sep="\\n")
`;
const ANSWER = `The **south** leads with 2,100, which is 38 % of all sales. The north follows closely.

| Region | Orders | Amount |
|---|---:|---:|
| south | 2 | 2,100 |
| north | 2 | 1,850 |
| east | 1 | 1,530 |
`;

/** A provider in OpenAI's form: two calls of tools, then the answer. */
async function startProvider() {
  const port = await freePort();
  const provider = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const { messages = [] } = body ? JSON.parse(body) : {};
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (delta, finish_reason = null, more = {}) => {
      const chunk = { id: "x", object: "chat.completion.chunk", created: 1, model: "large", choices: [{ index: 0, delta, finish_reason }], ...more };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    const usage = { prompt_tokens: 1_284, completion_tokens: 211, total_tokens: 1_495 };
    await sleep(420);
    const calls = messages.filter(({ role }) => role === "tool").length;
    if (calls > 1) {
      for (const word of ANSWER.split(/(?<=\s)/)) {
        send({ content: word });
        await sleep(6);
      }
      send({}, "stop", { usage });
    } else {
      if (calls === 0) send({ reasoning_content: "The amounts have to be summed by region. A short program is safer than arithmetic by head." });
      await sleep(300);
      const [name, values] = calls === 0 ? ["execute_python", { code: PROGRAM }] : ["calculator", { expression: "100 * 2100 / (2100 + 1850 + 1530)" }];
      const call = { index: 0, id: `call_${calls}`, type: "function", function: { name, arguments: JSON.stringify(values) } };
      send({ tool_calls: [call] }, "tool_calls", { usage });
    }
    response.end("data: [DONE]\n\n");
  });
  await new Promise((resolve) => provider.listen(port, "127.0.0.1", resolve));
  return { provider, port };
}

async function draw(page, folder, name) {
  const path = join(folder, name);
  await page.mouse.move(0, 0);
  await page.screenshot({ path });
  const { size } = statSync(path);
  assert.ok(size <= MOST_BYTES, `${name} has ${size} bytes`);
  console.log(`${path}: ${size} bytes`);
}

async function main(binary, folder) {
  mkdirSync(folder, { recursive: true });
  const { provider, port } = await startProvider();
  const models = `default_model: large\nmodels:\n  - {id: large, api_url: "http://127.0.0.1:${port}/v1", api_key: none, price: {prompt: 0.4, completion: 1.6}}\n`;
  const server = await Server.start(binary, models);
  for (const title of ["Release notes for 2.4", "Why is the nightly import slow?", "Translate the invoice template"]) {
    await server.call("POST", "/api/conversations", { title });
  }
  const browser = await launch();
  const light = await openPage(browser, server, { viewport: CHAT_SIZE, colorScheme: "light", reducedMotion: "reduce" });
  await ask(light, "Which region sold most? Sum the orders by region.");
  await answer(light);
  await light.locator("details.tool summary").first().click();
  await sleep(500);
  await light.locator(".messages").evaluate((frame) => (frame.scrollTop = 0));
  await draw(light, folder, "chat.png");
  const { data } = await server.call("GET", "/v1/jobs");
  const dark = await openPage(browser, server, { viewport: RUN_SIZE, colorScheme: "dark", reducedMotion: "reduce" });
  await dark.goto(`${server.origin}/#/runs/${data[0].id}?tab=timeline`);
  await dark.getByRole("tab", { name: "Timeline" }).click();
  await dark.waitForLoadState("networkidle");
  await sleep(500);
  await draw(dark, folder, "run.png");
  for (const page of [light, dark]) page.watch.check();
  await browser.close();
  await server.kill();
  provider.close();
}

await main(...process.argv.slice(2));
process.exit(0);
