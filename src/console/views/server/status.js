// The status of the server: GET /v1/status. What others than administrators may not see is null.

import { useData } from "../../lib/ui.js";
import * as api from "../../lib/api.js";

const EVERY_MS = 5_000;

/** The status, asked again while the page is visible. */
export const useStatus = () => useData((abort) => api.get("/v1/status", abort), [], EVERY_MS);
