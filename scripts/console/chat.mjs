// The chat: answers, tools, a killed server, edits, hostile texts.

import assert from "node:assert/strict";
import { Server, answer, ask, openPage, until } from "./harness.mjs";
import { PAYLOADS } from "./payloads.mjs";

const APPROVAL = "approval: [calculator]\n";

export const tests = {
  async "an answer streams, shows its tool call and survives a reload"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await ask(page, "what is 12*7?");
    const said = await answer(page);
    assert.match(await said.innerText(), /84/);
    await said.locator("summary").first().click();
    assert.match(await said.innerText(), /12\*7/);
    await page.reload();
    assert.match(await (await answer(page)).innerText(), /84/);
    page.watch.check();
    await server.kill();
  },

  async "an open answer goes on by itself after kill -9"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    page.watch.allowsLostConnections = true;
    await ask(page, "stream: 80 words, 50 ms");
    await page.getByText("word-10", { exact: false }).waitFor();
    await server.kill();
    await page.getByText("Connection lost").waitFor();
    await server.run();
    const said = await (await answer(page)).innerText();
    assert.ok(said.includes("word-1 ") && said.includes("word-80"), said);
    assert.equal(said.split("word-80").length, 2, "nothing comes twice");
    page.watch.check();
    await server.kill();
  },

  async "several tabs show the same run, and one can stop it"({ browser, binary }) {
    const server = await Server.start(binary);
    const first = await openPage(browser, server);
    await ask(first, "stream: 400 words, 50 ms");
    await first.getByText("word-5", { exact: false }).waitFor();
    const second = await first.context().newPage();
    await second.goto(first.url());
    await second.getByText("word-12", { exact: false }).waitFor();
    await second.getByRole("button", { name: "Stop" }).click();
    for (const page of [first, second]) await page.getByText("Cancelled.").waitFor();
    first.watch.check();
    await server.kill();
  },

  async "a call that waits is approved in place"({ browser, binary }) {
    const server = await Server.start(binary, APPROVAL);
    const page = await openPage(browser, server);
    await ask(page, "what is 6*7?");
    await page.getByRole("button", { name: "Approve" }).click();
    assert.match(await (await answer(page)).innerText(), /42/);
    await ask(page, "what is 6*8?");
    await page.getByRole("button", { name: "Deny" }).click();
    assert.doesNotMatch(await (await answer(page)).innerText(), /48/);
    page.watch.check();
    await server.kill();
  },

  async "conversations are renamed, found and deleted; a question is edited"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await ask(page, "what is 2*3?");
    await answer(page);
    await page.locator(".message.user").hover();
    await page.getByRole("button", { name: "Edit and ask again" }).click();
    await page.getByLabel("Question").fill("what is 3*3?");
    await page.getByRole("button", { name: "Ask again" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Ask again" }).click();
    await page.getByText('{"result":9}', { exact: false }).waitFor();
    assert.equal(await page.locator(".message.user").count(), 1);
    const row = page.locator(".chat-row").first();
    await row.hover();
    await row.getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("Title").fill("Sums");
    await page.keyboard.press("Enter");
    await page.locator(".chat-row", { hasText: "Sums" }).waitFor();
    await page.getByLabel("Search conversations").fill("nothing has this");
    await page.getByText("Nothing found").waitFor();
    await page.getByLabel("Search conversations").fill("sums");
    await page.locator(".chat-row", { hasText: "Sums" }).hover();
    await page.locator(".chat-row").first().getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await until("the list is empty", async () => (await page.locator(".chat-row").count()) === 0);
    page.watch.check();
    await server.kill();
  },

  async "no hostile text in prompts, answers, titles and tool results runs a script"({ browser, binary }) {
    const server = await Server.start(binary);
    for (const [at, payload] of PAYLOADS.entries()) {
      const made = await server.call("POST", "/api/conversations", { title: payload.slice(0, 190) });
      const call = { expression: payload };
      const input = at % 2 === 0 ? payload : `tool: calculator ${JSON.stringify(call)}`;
      await server.call("POST", "/v1/jobs?wait=20", { input, conversation_id: made.data.id, metadata: { note: payload.slice(0, 200) } });
    }
    const { items } = (await server.call("GET", "/api/conversations?limit=100")).data;
    const page = await openPage(browser, server);
    for (const { id } of items) {
      await page.goto(`${server.origin}/#/chat/${id}`);
      await answer(page);
      await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
      for (const link of await page.locator(".messages a").all()) {
        assert.match((await link.getAttribute("href")) ?? "", /^(?:https?:|mailto:|#)/);
      }
    }
    page.watch.check();
    await server.kill();
  },
};
