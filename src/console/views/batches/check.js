// Sends a file of lines: as a dry run, whose answer names the faults by line, or for good.

import * as api from "../../lib/api.js";

/**
 * Posts a file; the browser reads it from the disk while it is sent. `onProgress` gets the sent share, 0 to 1.
 * fetch() tells no progress, so this is the older interface.
 */
export function sendFile(path, file, { headers = {}, onProgress = () => {}, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const answered = async () => {
      const response = new Response(request.response, { status: request.status });
      if (response.ok) return response.json();
      if (response.status === 401) api.sessionLost.value += 1;
      throw await api.errorOf(response);
    };
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onload = () => answered().then(resolve, reject);
    request.onerror = () => reject(new api.ApiError(0, "no connection"));
    request.onabort = () => reject(new DOMException("", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.open("POST", path);
    for (const [name, value] of Object.entries({ Accept: "application/json", "Content-Type": "application/jsonl", ...headers })) {
      request.setRequestHeader(name, value);
    }
    request.send(file);
  });
}

/** What the server says of the lines; nothing is stored. */
export const check = (file, options) => sendFile("/v1/batches?dry_run=true", file, options);
