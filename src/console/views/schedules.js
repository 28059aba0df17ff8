// Schedules: the list, or the schedule of the address.

import { html } from "../lib/ui.js";
import { ScheduleList } from "./schedules/list.js";
import { SchedulePage } from "./schedules/schedule.js";

export function View({ segments, query }) {
  const [id] = segments;
  return id ? html`<${SchedulePage} key=${id} id=${id} />` : html`<${ScheduleList} query=${query} />`;
}
