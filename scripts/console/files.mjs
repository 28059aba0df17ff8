// Files of projects: uploads, tree, editor, conflicts with other writers, search, downloads.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Server, openPage, until } from "./harness.mjs";

const BYTES = Buffer.from(Array.from({ length: 70_000 }, (_, at) => at % 256));

/** A folder `pack` with two texts and a binary file. */
function folder() {
  const pack = join(mkdtempSync(join(tmpdir(), "nanoclaw-folder-")), "pack");
  mkdirSync(join(pack, "src"), { recursive: true });
  writeFileSync(join(pack, "src/main.py"), "print('hello')\n");
  writeFileSync(join(pack, "README.md"), "# A needle in the hay\n");
  writeFileSync(join(pack, "data ä.bin"), BYTES);
  return pack;
}

/** A page that shows a file of a new project, and the route of the file. */
async function opened(browser, server, name, content) {
  const made = await server.call("POST", "/api/projects", { name: "notes" });
  const route = `/api/projects/${made.data.id}/files/${name}`;
  await server.call("PUT", route, { content });
  const page = await openPage(browser, server);
  await page.goto(`${server.origin}/#/files/${made.data.id}/${name}`);
  await page.getByRole("heading", { name, exact: true }).waitFor();
  return { page, route };
}

const textOf = async (server, route) => (await server.call("GET", route)).data.content;
const saved = (page) => page.getByRole("status").getByText("No changes.").waitFor();

export const tests = {
  async "a folder is uploaded, shown, searched, edited and deleted"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/files`);
    await page.getByRole("button", { name: "New project" }).click();
    await page.locator("input[name=name]").fill("notes");
    await page.getByRole("button", { name: "Make the project" }).click();
    await page.getByRole("heading", { name: "notes", exact: true }).waitFor();
    const id = page.url().split("/").at(-1);
    await page.locator("input[webkitdirectory]").setInputFiles(folder());
    await page.getByText("Files uploaded: 3.").waitFor();
    for (const name of ["pack", "src", "main.py"]) {
      await page.getByRole("treeitem", { name }).first().click();
      await page.getByRole("heading", { name, exact: true }).waitFor();
    }
    assert.match(await page.getByRole("region", { name: "Text of main.py" }).innerText(), /print\('hello'\)/);
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.getByLabel("Text of main.py").fill("print('changed')\n");
    await page.keyboard.press("Control+s");
    await saved(page);
    assert.equal(await textOf(server, `/api/projects/${id}/files/pack/src/main.py`), "print('changed')\n");
    await page.getByRole("button", { name: "Close the editor" }).click();
    await page.getByLabel("Search in the files").first().fill("NEEDLE");
    await page.keyboard.press("Enter");
    await page.getByText("Nothing found").waitFor(); // below pack/src only
    await page.getByRole("link", { name: "Search the whole project" }).click();
    await page.locator("mark", { hasText: "needle" }).click();
    await page.getByRole("heading", { name: "README.md", exact: true }).waitFor();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await until("the file is gone", async () => (await page.getByRole("treeitem", { name: "README.md" }).count()) === 0);
    page.watch.check();
    await server.kill();
  },

  async "a binary file is downloaded byte by byte, and a page among the files is never shown"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/files`);
    await page.locator("input[webkitdirectory]").setInputFiles(folder());
    await page.getByRole("treeitem", { name: "data ä.bin" }).click();
    await page.getByRole("heading", { name: "The file cannot be shown" }).waitFor();
    const stored = async () => {
      const begun = page.waitForEvent("download");
      await page.getByRole("link", { name: "Download" }).click();
      const download = await begun;
      return [download.suggestedFilename(), readFileSync(await download.path())];
    };
    assert.deepEqual(await stored(), ["data ä.bin", BYTES]);
    page.watch.forgive(/400/); // the console asks for the text first
    const id = page.url().split("/").at(-2);
    const evil = "<script>alert(1)</script>";
    await server.call("PUT", `/api/projects/${id}/files/evil.html`, { content: evil });
    await page.goto(`${server.origin}/#/files/${id}/evil.html`);
    await page.reload(); // the tree of the page does not know the file yet
    await page.getByRole("heading", { name: "evil.html", exact: true }).waitFor();
    assert.deepEqual(await stored(), ["evil.html", Buffer.from(evil)]);
    const begun = page.waitForEvent("download");
    await page.goto(`${server.origin}/api/projects/${id}/files/evil.html?raw=true`).catch(() => {});
    assert.equal((await begun).suggestedFilename(), "evil.html");
    page.watch.check();
    await server.kill();
  },

  async "a file that somebody else has written is not overwritten unasked"({ browser, binary }) {
    const server = await Server.start(binary);
    const { page, route } = await opened(browser, server, "notes.md", "one\r\ntwo\r\n");
    const area = page.getByRole("textbox", { name: "Text of notes.md" });
    const save = page.getByRole("button", { name: "Save", exact: true });
    const dialog = page.getByRole("dialog", { name: "The file has changed meanwhile" });
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await area.fill("mine\n");
    await server.call("PUT", route, { content: "by the agent\n" });
    await save.click();
    await dialog.getByText("See the new text").click();
    await dialog.getByText("by the agent").waitFor();
    await dialog.getByRole("button", { name: "Go on editing" }).click();
    assert.equal(await textOf(server, route), "by the agent\n");
    await save.click();
    await dialog.getByRole("button", { name: "Overwrite it" }).click();
    await saved(page);
    assert.equal(await textOf(server, route), "mine\r\n", "with the ends of lines that the file had");
    await area.fill("mine again\n");
    await server.call("PUT", route, { content: "by the agent again\n" });
    await save.click();
    await dialog.getByRole("button", { name: "Take the new text" }).click();
    assert.equal(await area.inputValue(), "by the agent again\n");
    await area.fill("merged\n");
    await save.click();
    await saved(page);
    assert.equal(await textOf(server, route), "merged\n");
    await area.fill("once more\n");
    await server.call("DELETE", route);
    await save.click();
    await dialog.getByRole("button", { name: "Overwrite it" }).click();
    await saved(page);
    assert.equal(await textOf(server, route), "once more\n");
    page.watch.forgive(/412|404/);
    page.watch.check();
    await server.kill();
  },

  async "a new file takes no name that is taken"({ browser, binary }) {
    const server = await Server.start(binary);
    const { page, route } = await opened(browser, server, "notes.md", "kept");
    await page.getByRole("link", { name: "notes", exact: true }).click();
    for (const [name, isTaken] of [["notes.md", true], ["new.md", false]]) {
      await page.getByRole("button", { name: "New file" }).click();
      await page.locator("input[name=name]").fill(name);
      await page.getByRole("button", { name: "Make the file" }).click();
      if (isTaken) {
        await page.getByText("A file of this name is there already.").waitFor();
        await page.getByRole("button", { name: "Cancel" }).click();
      } else await page.getByText("The file is empty").waitFor();
    }
    assert.equal(await textOf(server, route), "kept");
    page.watch.forgive(/412/);
    page.watch.check();
    await server.kill();
  },

  async "the memory of runs is read and changed, and no change of a run is lost"({ browser, binary }) {
    const server = await Server.start(binary, "memory: {enabled: true}\n");
    const page = await openPage(browser, server);
    const memory = async () => (await server.call("GET", "/v1/memory")).content;
    await page.goto(`${server.origin}/#/files`);
    const write = async (text) => {
      await page.getByRole("button", { name: "Memory of runs" }).click();
      await page.getByLabel("What runs keep for later ones").fill(text);
    };
    await write("- likes tea\n");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await until("it is saved", async () => (await memory()) === "- likes tea\n");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await write("- likes coffee\n");
    await server.call("PUT", "/v1/memory", { content: "- a run was faster\n" });
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("the memory has changed since it was read").waitFor();
    assert.equal(await memory(), "- a run was faster\n");
  },
};
