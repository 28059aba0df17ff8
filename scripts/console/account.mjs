// Accounts: invites, registration, quotas, a new password, the end of all sessions.

import assert from "node:assert/strict";
import { Server, logIn, openPage, sleep, until } from "./harness.mjs";
import { violations } from "./views.mjs";

const BY_INVITE = "auth_mode: multi\nregistration: invite\n";
const [FIRST, SECOND] = ["a long first password", "a long second password"];

/** A page whose user, the administrator, is logged in; and the headers of the same user without a browser. */
async function administrator(browser, server) {
  const page = await openPage(browser, server);
  await page.getByLabel("Password").waitFor();
  page.watch.check(); // nobody is logged in, and the browser has nothing to report
  const account = await server.registration("ann", FIRST);
  const made = await page.request.post(`${server.origin}/api/auth/register`, { data: account });
  const { token } = (await made.json()).data;
  await page.reload();
  await page.getByLabel("Message", { exact: true }).waitFor();
  return { page, headers: { Authorization: `Bearer ${token}` } };
}

/** Makes an invite in the console and returns its link; the page may show the link of an earlier one. */
async function invite(page) {
  await page.goto(`${new URL(page.url()).origin}/#/server/invites`);
  const shown = page.locator(".server-secret code");
  const earlier = (await shown.count()) > 0 ? await shown.innerText() : "";
  await page.getByRole("button", { name: "New invite" }).click();
  return until("the link of the new invite", async () => {
    const link = (await shown.count()) > 0 ? await shown.innerText() : "";
    return link !== earlier && link;
  });
}

async function register(page, link, username) {
  await page.goto(link);
  await page.getByLabel("User name").fill(username);
  await page.getByLabel("Password").fill(FIRST);
  await page.getByRole("button", { name: "Make the account" }).click();
}

const statusOf = async (page) => (await page.request.get(`${new URL(page.url()).origin}/v1/jobs`)).status();

async function setUp(page, link, username) {
  await page.goto(link);
  await page.getByRole("form", { name: "Create the administrator" }).waitFor();
  await page.getByLabel("User name").fill(username);
  await page.getByLabel("Password").fill(FIRST);
  await page.getByRole("button", { name: "Make the account" }).click();
}

export const tests = {
  async "the set-up page makes the administrator, once and only with the newest link"({ browser, binary }) {
    const server = await Server.start(binary, "auth_mode: multi\n");
    const page = await openPage(browser, server);
    await page.getByText("There is no account yet").waitFor();
    assert.equal(await page.getByRole("button", { name: "I have an account" }).count(), 0, "nobody has one");
    for (const width of [1280, 390, 320]) {
      await page.setViewportSize({ width, height: 820 });
      assert.deepEqual(await violations(page), [], `at ${width}`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `at ${width}`);
    }
    const [replaced, link] = [server.setupLink(), server.setupLink()];
    assert.ok(link.startsWith(`${server.origin}/#/setup?invite=`) && link !== replaced, link);
    await setUp(page, replaced, "ann");
    await page.getByRole("alert").getByText("nanoclaw user setup-link").waitFor();
    page.watch.forgive(/403/);
    await setUp(page, link, "ann");
    await page.getByLabel("Message", { exact: true }).waitFor();
    assert.ok(!page.url().includes("invite"), page.url());
    assert.equal((await (await page.request.get(`${server.origin}/api/auth/profile`)).json()).data.role, "admin");
    page.watch.check();
    const late = await openPage(browser, server);
    await late.goto(link);
    await late.getByRole("button", { name: "Log in" }).waitFor();
    late.watch.check();
    await server.kill();
  },

  async "invites are listed, revoked and used"({ browser, binary }) {
    const server = await Server.start(binary, BY_INVITE);
    const { page } = await administrator(browser, server);
    const revoked = await invite(page);
    const rows = page.getByRole("region", { name: "Unused invites" }).locator("tbody tr");
    await rows.first().waitFor();
    assert.match(await rows.first().innerText(), /you/);
    await rows.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No unused invites").waitFor();
    const guest = await openPage(browser, server);
    await register(guest, revoked, "bob");
    await guest.getByRole("alert").getByText("needs an invite").waitFor();
    guest.watch.forgive(/403/);
    const link = await invite(page);
    assert.notEqual(link, revoked);
    await rows.first().waitFor();
    await register(guest, link, "bob");
    await guest.getByLabel("Message", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("No unused invites").waitFor();
    guest.watch.check();
    page.watch.check();
    await server.kill();
  },

  async "the account shows its quotas as bars"({ browser, binary }) {
    const server = await Server.start(binary, BY_INVITE);
    const { page, headers } = await administrator(browser, server);
    const { id } = (await server.call("GET", "/api/auth/profile", undefined, headers)).data;
    const quota = { tokens_per_day: 100_000, unfinished_jobs: 4, project_bytes: 1000 };
    await server.call("PATCH", `/api/users/${id}`, { quota }, headers);
    const project = await server.call("POST", "/api/projects", { name: "notes" }, headers);
    await server.call("PUT", `/api/projects/${project.data.id}/files/a.txt`, { content: "x".repeat(250) }, headers);
    await server.call("POST", "/v1/jobs", { input: "later", run_at: Math.floor(Date.now() / 1000) + 3600 }, headers);
    await page.goto(`${server.origin}/#/account`);
    for (const [name, used, limit] of [["Tokens today (UTC)", 0, 100_000], ["Unfinished runs", 1, 4], ["Files of projects", 250, 1000]]) {
      const bar = page.getByRole("progressbar", { name });
      await bar.waitFor();
      assert.deepEqual(await bar.evaluate(({ value, max }) => [value, max]), [used, limit], name);
    }
    assert.equal(await page.getByRole("progressbar").count(), 3, "what has no limit has no bar");
    page.watch.check();
    await server.kill();
  },

  async "the views of accounts break no rule of axe and fit a narrow screen"({ browser, binary }) {
    const server = await Server.start(binary, BY_INVITE);
    const { page } = await administrator(browser, server);
    await invite(page);
    for (const [view, width] of ["account", "server/invites", "server/users"].flatMap((view) => [[view, 1280], [view, 390], [view, 320]])) {
      await page.setViewportSize({ width, height: 820 });
      await page.goto(`${server.origin}/#/${view}`);
      await page.waitForLoadState("networkidle");
      await sleep(200);
      assert.deepEqual(await violations(page), [], `${view} at ${width}`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${view} at ${width}`);
    }
    page.watch.check();
    await server.kill();
  },

  async "a new password and a logout everywhere end the other sessions"({ browser, binary }) {
    const server = await Server.start(binary, BY_INVITE);
    const { page } = await administrator(browser, server);
    const other = await openPage(browser, server);
    await logIn(other, "ann", FIRST);
    await page.goto(`${server.origin}/#/account`);
    await page.getByLabel("Present password").fill(FIRST);
    await page.getByLabel("New password", { exact: false }).first().fill(SECOND);
    await page.getByLabel("New password again").fill(SECOND);
    await page.getByRole("button", { name: "Change the password" }).click();
    await page.getByText("The password is changed.").waitFor();
    assert.deepEqual([await statusOf(page), await statusOf(other)], [200, 401]);
    await other.reload();
    await logIn(other, "ann", SECOND);
    assert.equal(await statusOf(other), 200);
    await page.getByRole("button", { name: "Log out everywhere" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Log out everywhere" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await until("the other session is over", async () => (await statusOf(other)) === 401);
    await other.reload();
    await other.getByRole("button", { name: "Log in" }).waitFor();
    page.watch.check();
    other.watch.forgive(/401/);
    other.watch.check();
    await server.kill();
  },
};
