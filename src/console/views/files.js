// Projects and their files.

import { html } from "../lib/ui.js";
import { Project } from "./files/project.js";
import { Projects } from "./files/projects.js";

export function View({ segments, query }) {
  const [id, ...path] = segments;
  if (!id) return html`<${Projects} />`;
  return html`<${Project} key=${id} id=${id} path=${path.join("/")} query=${query} />`;
}
