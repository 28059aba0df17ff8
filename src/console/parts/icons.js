// Icons as lines on a grid of 16 by 16.

import { html } from "../lib/ui.js";

const PATHS = {
  chat: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  runs: "M3 4h10M3 8h7M3 12h4",
  batches: "M8 2 14 5 8 8 2 5zM2.5 8 8 10.8 13.5 8M2.5 11 8 13.8 13.5 11",
  schedules: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.6",
  webhooks: "M3 8h7M7.5 4.5 11 8l-3.5 3.5M13.5 3v10",
  files: "M2.5 4.5v8h11v-6.5h-6l-1.5-1.5z",
  usage: "M3 13V8M8 13V3M13 13V6",
  server: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  account: "M8 8.2a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2zM3 13.5c.6-2.4 2.5-3.5 5-3.5s4.4 1.1 5 3.5",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2 13.5 13.5",
  send: "M8 13V3.5M4 7.2 8 3.2l4 4",
  stop: "M4.5 4.5h7v7h-7z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  edit: "M3 13l.6-2.7L10.8 3.1l2.1 2.1-7.2 7.2zM9.4 4.5l2.1 2.1",
  trash: "M3 4.5h10M6 4.5v-1.5h4v1.5M4.2 4.5l.6 8.5h6.4l.6-8.5",
  check: "M3 8.5 6.5 12 13 4.5",
  warning: "M8 2.5 14.2 13H1.8zM8 6.5v3M8 11.3h.01",
  tool: "M9.8 2.8a3.2 3.2 0 0 0-3.3 4.3L2.8 10.8l2.4 2.4 3.7-3.7a3.2 3.2 0 0 0 4.2-3.4l-2 1.9-2-.5-.5-2z",
  think: "M8 2.8a4 4 0 0 0-2.3 7.3V12h4.6v-1.9A4 4 0 0 0 8 2.8zM6.5 13.8h3",
  chevron: "M6 4l4 4-4 4",
  attach: "M12.5 7.5 7.6 12.4a2.7 2.7 0 0 1-3.9-3.9l5-5a1.8 1.8 0 0 1 2.6 2.6l-4.9 4.9a.9.9 0 0 1-1.3-1.3l4.4-4.4",
  copy: "M5.5 5.5h7.5v7.5h-7.5zM10.5 5.5v-2.5H3v7.5h2.5",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2 12.5 8 5 12.8z",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.3h10",
  settings: "M3 5h6M12 5h1M3 11h1M7 11h6M10.5 3.5v3M5.5 9.5v3",
  folder: "M2.5 4.5v8h11v-6.5h-6l-1.5-1.5z",
  file: "M4 2.5h5l3 3v8h-8zM9 2.5v3h3",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}

/** The address of the console's own picture. */
export const iconAddress = () => document.querySelector('link[rel="icon"]').href;
