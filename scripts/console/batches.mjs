// Batches, schedules, webhooks and usage: a file is checked before it is sent, next runs, deliveries, groups.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Server, answer, newUser, openPage, sleep, until } from "./harness.mjs";

const line = (id, input, rest = {}) => JSON.stringify({ custom_id: id, body: { input, ...rest } });

/** Lets go of a file above the place for files. */
async function drop(page, text, name = "lines.jsonl") {
  const make = ([content, title]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([content], title, { type: "application/jsonl" }));
    return transfer;
  };
  const dataTransfer = await page.evaluateHandle(make, [text, name]);
  await page.getByRole("region", { name: "New batch" }).dispatchEvent("drop", { dataTransfer });
}

/** A receiver of webhooks whose answers a test chooses: `answers[path]`. */
async function startReceiver(answers) {
  const posts = [];
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      posts.push({ path: request.url, id: request.headers["webhook-id"] });
      response.writeHead(answers[request.url]).end();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { posts, url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

export const tests = {
  async "a dropped file is checked by the server, mended, sent, and its results downloaded"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/batches`);
    await drop(page, [line("a", "what is 1*2?"), line("b", "x", { model: "nope" }), "{", line("a", "x")].join("\n"));
    const faults = page.getByRole("region", { name: "What is wrong" });
    const row = (number) => faults.getByRole("row").nth(number).innerText();
    await faults.waitFor();
    assert.match(await row(1), /^2\s+b\s+.*nope.*\s+model$/s);
    assert.match(await row(2), /^3\s+–\s+it is not JSON/);
    assert.match(await row(3), /^4\s+a\s+the custom_id 'a' is used twice\s+custom_id$/);
    assert.deepEqual(await page.locator(".batches-figures .figure").allInnerTexts(), ["4", "1", "3"]);
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    assert.deepEqual((await server.call("GET", "/v1/batches")).data, [], "nothing is stored");

    await drop(page, [1, 2, 3].map((n) => line(`line-${n}`, `what is ${n}*2?`)).join("\n"), "mended.jsonl");
    await page.getByRole("button", { name: "Send 3 lines" }).click();
    await page.getByRole("img", { name: "3 of 3 lines have ended, 0 failed" }).waitFor();
    const results = page.getByRole("table", { name: "Results" });
    await results.getByText("line-3").waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download results" }).click()]);
    const lines = readFileSync(await download.path(), "utf8").trim().split("\n").map(JSON.parse);
    assert.deepEqual(lines.map((each) => each.custom_id), ["line-1", "line-2", "line-3"]);
    assert.match(lines[2].response.body.output_text, /6/);

    const batch = page.url();
    await results.getByRole("link").first().click();
    await page.getByRole("link", { name: "Batch", exact: true }).click();
    await page.getByRole("img", { name: "3 of 3 lines have ended, 0 failed" }).waitFor();
    assert.equal(page.url(), batch);
    await page.getByRole("link", { name: "Runs", exact: true }).last().click();
    await until("the runs of the batch are listed", async () => (await page.locator(".runs-table [data-row]").count()) === 3);
    page.watch.check();
    await server.kill();
  },

  async "a large file is checked to its last line, and another one ends the check"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/batches`);
    const many = Array.from({ length: 8_000 }, (_, n) => line(`n${n}`, "word ".repeat(100)));
    // However quick the server is, the check is seen.
    const held = async (route) => {
      await sleep(1_000);
      await route.continue();
    };
    await page.route(/dry_run/, held, { times: 1 });
    await drop(page, many.join("\n"), "large.jsonl");
    await page.getByRole("progressbar", { name: "The lines are being checked …" }).waitFor();
    await page.getByRole("button", { name: "Another file" }).click();
    await drop(page, [...many, "nonsense"].join("\n"), "larger.jsonl");
    const faults = page.getByRole("region", { name: "What is wrong" });
    await faults.waitFor({ timeout: 60_000 });
    assert.match(await faults.getByRole("row").last().innerText(), /^8,001/);
    assert.deepEqual((await server.call("GET", "/v1/jobs")).data, []);
    page.watch.check();
    await server.kill();
  },

  async "a schedule shows its next runs while it is typed, pauses, runs and is deleted"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server, { timezoneId: "Europe/Berlin" });
    await page.goto(`${server.origin}/#/schedules`);
    await page.getByRole("button", { name: "New schedule" }).click();
    const dialog = page.getByRole("dialog", { name: "New schedule" });
    await dialog.getByLabel("Name").fill("morning");
    const cron = dialog.getByLabel("Cron line");
    await cron.pressSequentially("30 7 * * MO");
    await dialog.getByRole("alert").waitFor();
    await cron.pressSequentially("N-FRI");
    const next = dialog.locator(".schedules-next li");
    await until("five runs are shown", async () => (await next.count()) === 5);
    assert.match(await next.first().innerText(), /7:30|07:30/);
    await dialog.getByRole("textbox", { name: "Input" }).fill("what is 6*7?");
    await dialog.getByRole("button", { name: "Store the schedule" }).click();
    page.watch.forgive(/status of 400/);

    const row = page.locator(".schedules-table [data-row]", { hasText: "morning" });
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByText("paused").waitFor();
    assert.equal((await server.call("GET", "/v1/schedules")).data[0].paused, true);
    await row.getByRole("button", { name: "Resume" }).click();
    await row.getByRole("button", { name: "Pause" }).waitFor();
    await row.getByRole("button", { name: "Run now" }).click();
    await row.getByText("succeeded").waitFor();

    await row.getByRole("link", { name: "morning" }).click();
    const runs = page.getByRole("table", { name: "Runs of the schedule" });
    await runs.getByRole("link", { name: "what is 6*7?" }).click();
    await page.getByRole("link", { name: "Schedule", exact: true }).click();
    await page.getByRole("heading", { name: "morning" }).waitFor();
    await page.getByRole("button", { name: "Delete the schedule" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete the schedule" }).click();
    await page.getByText("No schedules yet").waitFor();
    assert.equal((await server.call("GET", "/v1/jobs")).data.length, 1, "its run stays");
    page.watch.check();
    await server.kill();
  },

  async "deliveries show what the receiver said, are tried again, and may be given up"({ browser, binary }) {
    const answers = { "/busy": 500, "/gone": 410 };
    const receiver = await startReceiver(answers);
    const server = await Server.start(binary, "webhooks: {allow_private_addresses: [127.0.0.1]}\n");
    const page = await openPage(browser, server);
    for (const path of Object.keys(answers)) {
      await server.call("POST", "/v1/jobs?wait=20", { input: "hello", webhook_url: receiver.url + path });
    }
    await page.goto(`${server.origin}/#/webhooks`);
    const row = (path) => page.locator(".webhooks-table [data-row]", { hasText: path });
    await row("/busy").getByText("500", { exact: true }).waitFor();
    await row("/busy").getByText("pending").waitFor();
    await row("/gone").getByText("410", { exact: true }).waitFor();
    await row("/gone").getByText("given up").waitFor();

    answers["/busy"] = 200;
    await row("/busy").getByRole("button", { name: "Try now" }).click();
    await row("/busy").getByText("delivered").waitFor();
    await row("/busy").getByText("200", { exact: true }).waitFor();
    assert.equal(await row("/busy").getByRole("button", { name: "Try now" }).count(), 0);
    const ids = receiver.posts.filter(({ path }) => path === "/busy").map(({ id }) => id);
    assert.ok(ids.length === 2 && ids[0] === ids[1], "both tries have one id");

    await page.getByRole("button", { name: "Given up" }).click();
    await until("only one row is left", async () => (await page.locator(".webhooks-table [data-row]").count()) === 1);
    answers["/gone"] = 204;
    await row("/gone").getByRole("button", { name: "Try now" }).click();
    await until("it is delivered", async () => (await server.call("GET", "/v1/webhooks?state=delivered")).data.length === 2);
    await page.getByRole("button", { name: "Delivered" }).click();
    await row("/gone").getByText("204", { exact: true }).waitFor();
    await row("/gone").locator("a").first().click();
    await page.getByRole("heading", { name: "hello" }).waitFor();
    page.watch.check();
    receiver.close();
    await server.kill();
  },

  async "usage is read by keyboard: days in the plot, then models, conversations and users"({ browser, binary }) {
    const server = await Server.start(binary, "auth_mode: multi\nregistration: open\n");
    const people = [];
    for (const name of ["ann", "bob"]) {
      people.push(await newUser(browser, server, name, `what is the sum of ${name}?`));
    }
    const [ann, bob] = people;
    await ann.goto(`${server.origin}/#/usage`);
    const plot = ann.getByRole("application", { name: "Tokens by day and model" });
    await plot.locator("svg").waitFor();
    await plot.focus();
    await ann.keyboard.press("End");
    await ann.getByRole("status").filter({ hasText: /in all\. demo [1-9]/ }).waitFor();

    const tab = (page, name) => page.getByRole("tab", { name });
    await tab(ann, "By day").focus();
    const table = ann.getByRole("region", { name: "Usage" });
    for (const [name, text] of [["By model", /demo/], ["By conversation", /sum of ann/], ["By user", /ann[^]*bob|bob[^]*ann/]]) {
      await ann.keyboard.press("ArrowRight");
      await ann.locator('[role="tab"][aria-selected="true"]', { hasText: name }).waitFor();
      await until(`${name} shows its rows`, async () => text.test(await table.innerText()));
    }
    await ann.keyboard.press("Tab");
    assert.equal(await ann.evaluate(() => document.activeElement.getAttribute("aria-label")), "Usage", "the table can be scrolled");
    await ann.reload();
    await until("the group stands in the address", async () => /bob/.test(await table.innerText()));
    await tab(ann, "By conversation").click();
    await table.getByRole("link", { name: /sum of ann/ }).click();
    await answer(ann);

    await bob.goto(`${server.origin}/#/usage?by=user`);
    await tab(bob, "By conversation").click();
    const others = bob.getByRole("region", { name: "Usage" });
    await until("his conversation is there", async () => /sum of bob/.test(await others.innerText()));
    assert.doesNotMatch(await bob.locator("main").innerText(), /ann/);
    assert.equal(await tab(bob, "By user").count(), 0);
    for (const page of people) page.watch.check();
    await server.kill();
  },
};
