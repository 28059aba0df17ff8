// Starts servers and a browser for the console's tests, and watches what a page must never do.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:net";
import { chromium } from "playwright-core";

const BROWSER_FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export const freePort = () =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `read()` gives a true value, and returns it. */
export async function until(what, read, limitMs = 15_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await read();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await sleep(50);
  }
}

/** A server of the real binary in a directory of its own. */
export class Server {
  static async start(binary, settings = "") {
    const server = new Server();
    server.binary = binary;
    server.directory = mkdtempSync(join(tmpdir(), "nanoclaw-console-"));
    mkdirSync(join(server.directory, "data"));
    server.port = await freePort();
    server.origin = `http://127.0.0.1:${server.port}`;
    server.config = join(server.directory, "config.yml");
    const own = `data_dir: ${server.directory}/data\nlisten: 127.0.0.1:${server.port}\n`;
    writeFileSync(server.config, own + settings);
    await server.run();
    return server;
  }

  async run() {
    this.process = spawn(this.binary, ["--config", this.config, "serve"], { stdio: ["ignore", "ignore", "ignore"] });
    await until("the server is ready", () => fetch(`${this.origin}/healthz`).then((found) => found.ok, () => false));
  }

  /** Ends the server as a power cut would. */
  async kill() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  /** A new link that makes the first account. */
  setupLink() {
    return execFileSync(this.binary, ["--config", this.config, "user", "setup-link"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  }

  /** What registers an account; the first one needs the invite of the set-up link. */
  async registration(username, password) {
    const { has_accounts } = (await this.call("GET", "/api/auth/mode")).data;
    const invite = has_accounts ? undefined : this.setupLink().split("invite=")[1];
    return { username, password, invite };
  }

  async call(method, path, body, headers = {}) {
    const init = { method, headers: { ...headers } };
    if (body !== undefined) {
      init.body = typeof body === "string" ? body : JSON.stringify(body);
      init.headers["Content-Type"] ??= "application/json";
    }
    const response = await fetch(this.origin + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }
}

/** A browser; other programs can steer it too through `debuggingPort`. */
export function launch(debuggingPort = 0) {
  const flags = debuggingPort ? [...BROWSER_FLAGS, `--remote-debugging-port=${debuggingPort}`] : BROWSER_FLAGS;
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
}

/** What a console page must not do, collected while a test runs. */
class Watch {
  constructor(origin) {
    this.origin = origin;
    this.faults = [];
    /** Lost connections are part of some tests. */
    this.allowsLostConnections = false;
  }

  add(kind, text) {
    const isLost = /ERR_(?:INCOMPLETE_CHUNKED|CONNECTION|EMPTY_RESPONSE|ABORTED|NETWORK)|Failed to load resource: net::/.test(text);
    if (isLost && this.allowsLostConnections) return;
    this.faults.push(`${kind}: ${text}`);
  }

  /** Console errors of answers that the test expects, such as a 401 before the login. */
  forgive(pattern) {
    this.faults = this.faults.filter((fault) => !pattern.test(fault));
  }

  check() {
    if (this.faults.length > 0) throw new Error(`the page misbehaved:\n  ${this.faults.join("\n  ")}`);
  }
}

/** A page of a fresh browser context. `page.watch` collects its faults. */
export async function openPage(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, locale: "en-GB", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  const watch = new Watch(server.origin);
  page.watch = watch;
  page.on("console", (message) => message.type() === "error" && watch.add("console", message.text()));
  page.on("pageerror", (error) => watch.add("exception", error.message));
  page.on("dialog", (dialog) => {
    watch.add("dialog", dialog.message());
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(server.origin) || /^(?:data|blob):/.test(request.url());
    if (!isOwn) watch.add("request to another host", request.url());
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy ${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
    );
  });
  await page.goto(`${server.origin}/`);
  return page;
}

/** Writes a message in the chat and sends it. */
export async function ask(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

/** The newest answer, once it has ended. */
export async function answer(page) {
  const newest = page.locator(".message.assistant").last();
  await newest.and(page.locator('[aria-busy="false"]')).waitFor({ timeout: 30_000 });
  await until("the answer is drawn", async () => (await newest.locator('.markdown[aria-busy="true"]').count()) === 0);
  return newest;
}

/** Logs in at the form of the page, and waits for the chat. */
export async function logIn(page, username, password) {
  await page.getByLabel("User name").fill(username);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByLabel("Message", { exact: true }).waitFor();
}

/** A page of a new user, who has asked a question and seen the answer; anyone may register at the server. */
export async function newUser(browser, server, name, question) {
  const page = await openPage(browser, server);
  await page.getByLabel("Password").waitFor();
  const account = await server.registration(name, `${name}-has-a-long-one`);
  await page.request.post(`${server.origin}/api/auth/register`, { data: account });
  await page.reload();
  await ask(page, question);
  await answer(page);
  return page;
}
