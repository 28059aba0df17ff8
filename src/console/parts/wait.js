// What a run waits for, and by when it has to begin and to end.

import { ago, dateTime } from "../lib/format.js";
import { t } from "../lib/i18n.js";

/** "in 3 minutes", or a date where that would be many days. */
const nearOrDate = (at) => (at - Date.now() / 1000 > 86_400 ? dateTime(at) : ago(at));

/** What a queued or waiting run waits for, in a sentence; null where nothing is to say. */
export function waitText(job) {
  const waits = job.waits_for;
  if (!waits) return job.status === "queued" ? t("Waits for a free worker.") : null;
  const until = waits.until ? nearOrDate(waits.until) : null;
  switch (waits.reason) {
    case "conversation":
      return t("Waits until the run before it in the conversation has ended.");
    case "time":
      return until ? t("Begins {when}.", { when: until }) : t("Waits for its time.");
    case "provider":
      return until ? t("The model's provider lets it go on {when}.", { when: until }) : t("Waits for the model's provider.");
    case "retry":
      return until ? t("Tries again {when}.", { when: until }) : t("Waits for its next try.");
    case "predecessor":
      return t("Waits until the runs that it comes after have ended.");
    case "approval":
      return t("Waits for your approval.");
    default:
      return t("Waits for a free worker.");
  }
}

/** What an unfinished run comes after, and its times, in a few words each. */
export function conditionTexts(job) {
  const afterCount = job.status === "queued" ? (job.after ?? []).length : 0;
  return [
    job.deadline_at && t("has to end {when}", { when: nearOrDate(job.deadline_at) }),
    job.expires_at && !job.started_at && t("has to begin {when}", { when: nearOrDate(job.expires_at) }),
    afterCount > 0 && t("comes after runs: {n}", { n: afterCount }),
  ].filter(Boolean);
}
