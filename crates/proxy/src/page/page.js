// The page of the proxy's answers. Whatever comes from an answer becomes text, never markup.
"use strict";

const byId = (id) => document.getElementById(id);

// Characters of a text that stay on the page: more makes a browser slow, and the whole text has an address of its own.
const MOST_SHOWN = 200000;
const LIST_EVERY = 1000;
let answers = [];
let running = 0;
let filter = "all";
let sought = "";
// A mouse points at the list.
let isPointed = false;
let opened = null;

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Shows characters that are not seen, or that change the order of others, by their numbers.
function visible(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (c) => "⟦" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟧",
  );
}

function time(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  const minutes = Math.floor(ms / 60000);
  return minutes < 60 ? minutes + " min " + Math.floor((ms % 60000) / 1000) + " s" : Math.floor(minutes / 60) + " h";
}

function ago(ms) {
  if (ms < 1500) return "now";
  if (ms < 60000) return Math.round(ms / 1000) + " s ago";
  if (ms < 3600000) return Math.round(ms / 60000) + " min ago";
  return Math.round(ms / 3600000) + " h ago";
}

// The word for a state, and the class that colors it.
function state(answer) {
  if (answer.phase !== "ended") return [answer.is_stopped ? "stopping" : answer.phase, answer.phase];
  const className = answer.has_failed ? "failed" : "ended";
  if (answer.status >= 400) return ["refused " + answer.status, className];
  if (answer.has_failed) return [answer.outcome || answer.end, className];
  if (answer.end === "left") return ["client left", className];
  return [answer.outcome || "passed unread", className];
}

// How often an answer was cut, and why.
function cuts(answer) {
  const counts = new Map();
  for (const cause of answer.causes) counts.set(cause, (counts.get(cause) || 0) + 1);
  return [...counts].map(([cause, count]) => (count > 1 ? cause + " ×" + count : cause)).join(", ");
}

const shows = (answer) =>
  (answer.id.includes(sought) || answer.request_id.includes(sought)) &&
  (filter === "all" ||
  (filter === "failed" ? answer.has_failed : filter === "running" ? ["running", "waiting"].includes(answer.phase) : answer.phase === filter));

// The list

async function readList() {
  try {
    const response = await fetch("answers", { headers: { accept: "application/json" } });
    if (!response.ok) throw new Error("status " + response.status);
    const list = await response.json();
    answers = list.answers;
    running = list.running;
    drawList(true);
    drawTime();
  } catch (error) {
    byId("counts").textContent = "The proxy does not answer.";
  }
}

// `isTimed`: nobody has asked for it.
function drawList(isTimed) {
  const of = (phase) => answers.filter((answer) => answer.phase === phase).length;
  const failed = answers.filter((answer) => answer.has_failed).length;
  byId("counts").textContent =
    running + " under way" + (of("pending") ? ", " + of("pending") + " pending" : "") + " · the last " + failed + " failed and " +
    (of("ended") - failed) + " other answers";
  const rows = byId("rows");
  const known = new Map([...rows.children].map((row) => [row.dataset.id, row]));
  // A proxy without tokens needs no column for them.
  byId("list").classList.toggle("tokens", answers.some((answer) => answer.token));
  const shown = answers.filter(shows);
  // Rows don't move under the pointer by themselves: new ones wait until it has left, and those that are gone stay.
  const isHeld = isTimed && isPointed;
  let before = rows.firstChild;
  let waiting = 0;
  for (const answer of shown) {
    let row = known.get(answer.id);
    known.delete(answer.id);
    if (isHeld && !row) waiting += 1;
    if (isHeld && !row) continue;
    if (!row) row = newRow(answer);
    drawRow(row, answer);
    if (isHeld) continue;
    if (row === before) before = before.nextSibling;
    else rows.insertBefore(row, before);
  }
  if (!isHeld) for (const row of known.values()) row.remove();
  byId("new").hidden = waiting === 0;
  byId("new").textContent = waiting + (waiting === 1 ? " new answer" : " new answers") + " when the pointer leaves the list.";
  byId("empty").hidden = shown.length > 0;
  byId("empty").textContent = answers.length ? "No such answers." : "No answers yet.";
  const unlisted = running - (answers.length - of("ended"));
  byId("more").hidden = unlisted <= 0;
  byId("more").textContent = unlisted + " more are under way.";
}

function newRow(answer) {
  const row = make("tr");
  row.dataset.id = answer.id;
  for (const name of ["state", "model", "wire", "token", "route", "upstream", "id", "count n", "cuts", "time n", "began n"]) row.append(make("td", name));
  const link = make("a");
  link.href = "#" + encodeURIComponent(answer.id);
  link.append(make("span", "dot"), make("span"));
  row.firstChild.append(link);
  row.addEventListener("click", (event) => {
    if (!event.target.closest("a")) location.hash = encodeURIComponent(answer.id);
  });
  return row;
}

function drawRow(row, answer) {
  const [word, className] = state(answer);
  row.className = className;
  if (opened && opened.id === answer.id) row.setAttribute("aria-current", "true");
  else row.removeAttribute("aria-current");
  const [, model, wire, token, route, upstream, id, calls, cut, duration, began] = row.children;
  const set = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  set(row.querySelector("a span:last-child"), word);
  row.querySelector("a").title = answer.id;
  set(model, visible(answer.model) || "–");
  set(wire, answer.wire);
  set(token, answer.token || "");
  set(route, answer.route || "");
  set(upstream, answer.upstream || "–");
  set(id, answer.request_id);
  id.title = answer.request_id;
  set(calls, String(answer.calls));
  set(cut, cuts(answer));
  set(duration, time(answer.duration_ms));
  set(began, ago(answer.age_ms));
}

// One answer

function open(id) {
  close();
  const main = byId("main");
  main.classList.toggle("open", id !== null);
  byId("answer").hidden = id === null;
  if (id === null) return drawList();
  opened = { id, facts: null, drawn: null, hasText: false, restarts: 0, slots: [], timer: null, sure: null };
  byId("name").textContent = visible(id);
  byId("note").hidden = true;
  for (const part of ["facts", "calls", "texts", "views"]) byId(part).replaceChildren();
  byId("stop").hidden = true;
  byId("content").hidden = true;
  unsure();
  readAnswer(opened);
  drawList();
}

function close() {
  if (!opened) return;
  clearTimeout(opened.timer);
  clearTimeout(opened.sure);
  opened = null;
}

function note(text) {
  byId("note").textContent = text;
  byId("note").hidden = !text;
}

const address = (answer, view) => "answers/" + encodeURIComponent(answer.id) + "?view=" + view;

// Reads the facts, and the text that was added, once a second until the answer has ended.
async function readAnswer(answer) {
  let facts = null;
  let isWhole = false;
  try {
    const response = await fetch(address(answer, "report"));
    if (response.status === 404) return answer === opened && note("This answer is no longer known.");
    facts = await response.json();
    // The facts come first, so that the text of an answer that has ended is whole.
    if (facts.keeps_text || answer.hasText) await readText(answer);
    isWhole = facts.phase === "ended";
  } catch (error) {
    // The next round tries again.
  }
  if (answer !== opened) return;
  if (facts) drawChanges(answer, facts);
  if (!isWhole) answer.timer = setTimeout(() => readAnswer(answer), LIST_EVERY);
}

async function readText(answer) {
  const from = answer.slots.map(({ bytes }) => bytes).join(",");
  const response = await fetch(address(answer, "added") + "&restarts=" + answer.restarts + "&from=" + from);
  const { restarts, slots, missing: limit } = await response.json();
  if (answer !== opened) return;
  if (!answer.hasText) drawViews(answer);
  if (restarts !== answer.restarts) {
    answer.restarts = restarts;
    answer.slots = [];
    byId("texts").replaceChildren();
  }
  for (const [number, { name, bytes, added }] of slots.entries()) {
    const slot = (answer.slots[number] ??= newSlot(name));
    slot.bytes = bytes;
    for (const { call, text } of added) {
      if (call !== null) addSeam(slot, call);
      addText(slot, text);
    }
  }
  if (limit) note(missing(limit));
}

function drawViews(answer) {
  answer.hasText = true;
  byId("content").hidden = false;
  const views = [["Text", "text"], ["Closed JSON", "closed"], ["Report", "report"]];
  byId("views").replaceChildren(
    ...views.map(([name, view]) => {
      const link = make("a", "", name);
      link.href = address(answer, view);
      return link;
    }),
  );
}

// Draws the facts if more than the time has changed: somebody may read in them.
function drawChanges(answer, facts) {
  const drawn = JSON.stringify({ ...facts, age_ms: 0, duration_ms: 0 });
  if (drawn !== answer.drawn) drawFacts(answer, facts);
  answer.drawn = drawn;
}

// Lets the bars of an answer under way grow, unless somebody reads in them.
function drawTime() {
  const facts = opened && opened.facts;
  if (!facts || facts.phase === "ended" || byId("calls").contains(document.activeElement)) return;
  const listed = answers.find((answer) => answer.id === opened.id);
  if (listed) drawCalls(facts, listed.duration_ms);
}

function missing(limit) {
  const reasons = {
    page_answers: "The text was dropped for that of later answers.",
    max_page_bytes: "There is no more text: the memory for texts is full.",
    max_page_answer_bytes: "There is no more text: an answer's text has a limit.",
    undecodable: "There is no more text: the stream can't be read.",
  };
  return reasons[limit] || "There is no more text: " + limit + ".";
}

function newSlot(name) {
  const text = make("pre");
  text.tabIndex = 0;
  const hidden = make("p", "slotname");
  hidden.hidden = true;
  byId("texts").append(make("p", "slotname only", visible(name)), hidden, text);
  const slot = { text, hidden, bytes: 0, dropped: 0, shown: 0, runs: 0 };
  addRun(slot);
  return slot;
}

function addRun(slot) {
  const run = make("span", slot.runs === 0 ? "" : "run" + (1 + ((slot.runs - 1) % 2)));
  run.append("");
  slot.run = run.firstChild;
  slot.runs += 1;
  slot.text.append(run);
}

function addText(slot, added) {
  const element = slot.text;
  const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  const shown = visible(added);
  slot.run.appendData(shown);
  slot.shown += shown.length;
  if (slot.shown > MOST_SHOWN * 1.25) dropFirst(slot, slot.shown - MOST_SHOWN);
  if (isAtEnd) element.scrollTop = element.scrollHeight;
}

// Drops the first characters of a text that has become long.
function dropFirst(slot, count) {
  while (count > 0) {
    const run = slot.text.firstChild;
    const length = run.textContent.length;
    const isSeam = run.className === "seam";
    if (isSeam || (length <= count && run.firstChild !== slot.run)) {
      run.remove();
      if (isSeam) continue;
    } else {
      run.firstChild.deleteData(0, count);
    }
    const dropped = Math.min(length, count);
    count -= dropped;
    slot.shown -= dropped;
    slot.dropped += dropped;
  }
  slot.hidden.hidden = false;
  slot.hidden.textContent = slot.dropped + " characters before these are not shown.";
}

function addSeam(slot, call) {
  const mark = make("span", "seam", "call " + call);
  mark.title = "A continuation was joined here.";
  slot.text.append(mark);
  addRun(slot);
}

function drawFacts(answer, facts) {
  answer.facts = facts;
  const listed = answers.find((other) => other.id === answer.id);
  const duration = facts.duration_ms ?? (listed ? listed.duration_ms : null);
  const [word] = state(facts);
  const report = facts.report || {};
  const rows = [
    ["State", word + (facts.stop ? " (" + facts.stop + ")" : "")],
    ["Model", visible(facts.model) || "–"],
    ["API", facts.wire + (facts.stream ? "" : ", not streamed")],
    ["Calls", String(facts.calls)],
    ["Cuts", cuts(facts) || "none"],
    ["First byte", time(facts.first_byte_ms)],
    ["Time", facts.phase === "ended" ? time(facts.duration_ms) : "under way"],
    ["Body", facts.bytes === null ? "–" : facts.bytes.toLocaleString("en") + " bytes"],
  ];
  if (facts.token) rows.push(["Token", facts.token]);
  if (facts.route) rows.push(["Route", facts.route]);
  if (facts.upstream) rows.push(["Upstream", facts.upstream]);
  if (facts.request_id !== facts.id) rows.push(["Request id", facts.request_id]);
  if (report.limit) rows.push(["Limit", report.limit.name]);
  byId("facts").replaceChildren(
    ...rows.map(([name, value]) => {
      const group = make("div");
      group.append(make("dt", "", name), make("dd", "", value));
      return group;
    }),
  );
  drawCalls(facts, duration);
  const stop = byId("stop");
  stop.hidden = facts.phase === "ended";
  stop.disabled = facts.is_stopped;
  if (facts.is_stopped) stop.textContent = "Stopping";
  if (!facts.keeps_text && !answer.hasText) note("The text of this answer is not kept. With --page-answers N the proxy keeps those of the last N answers.");
}

// Groups the steps by their calls; those of no call belong to the one before.
function calls(facts) {
  const list = [];
  for (const step of facts.steps) {
    if (step.step === "call") list.push({ rung: step.rung, from: step.at_ms, answered: null, to: null, steps: [] });
    const call = list[step.call] || list[list.length - 1];
    if (!call) continue;
    if (step.step === "answered") call.answered = step.at_ms;
    if (["cut", "failed", "done", "given_up"].includes(step.step)) call.to ??= step.at_ms;
    call.steps.push(step);
  }
  return list;
}

function drawCalls(facts, duration) {
  const list = calls(facts);
  const last = Math.max(0, ...facts.steps.map((step) => step.at_ms));
  const end = Math.max(duration || 0, last, 1);
  const open = new Set([...byId("calls").querySelectorAll("details[open]")].map((details) => details.dataset.key));
  byId("calls").replaceChildren(...list.map((call, number) => drawCall(call, number, end, facts, open)));
}

function drawCall(call, number, end, facts, open) {
  const element = make("div", "call");
  element.append(make("span", "rung", number + " · " + call.rung));
  const track = make("div", "track");
  const to = call.to ?? end;
  const add = (className, from, until) => {
    const bar = make("span", className);
    bar.style.left = (100 * from) / end + "%";
    bar.style.width = (100 * Math.max(until - from, 0)) / end + "%";
    track.append(bar);
  };
  const has = (name) => call.steps.some((step) => step.step === name);
  add("asking", call.from, call.answered ?? to);
  const ending = has("failed") ? " bad" : has("cut") ? " cut" : call.to === null && facts.phase !== "ended" ? " live" : "";
  if (call.answered !== null) add("reading" + ending, call.answered, to);
  track.setAttribute("role", "img");
  track.setAttribute("aria-label", "from " + time(call.from) + " to " + time(to) + " of " + time(end));
  element.append(track);
  for (const [at, step] of call.steps.entries()) {
    const words = say(step);
    if (words) {
      const line = make("p", "said");
      line.append(make("b", "", words[0]), words[1] ? " " + words[1] : "");
      element.append(line);
    }
    if (step.step === "joined") element.append(drawScores(step, number + "." + at, open));
  }
  return element;
}

function say(step) {
  const at = step.path ? " at " + visible(step.path) : "";
  switch (step.step) {
    case "call":
      return null;
    case "answered":
      if (step.error) return ["no answer:", step.error];
      return step.status === 200 ? null : ["refused:", "status " + step.status];
    case "cut":
      return ["cut:", (step.cause || visible(step.end)) + ", byte " + step.offset + at];
    case "joined":
      return ["joined", "by " + step.alignment + " at byte " + step.offset + at + ", " + percent(step.posterior) + " sure, after " +
        time(step.gap_ms) + (step.ambiguous ? ", ambiguous" : "") + (step.early_end ? ", may end early" : "")];
    case "repaired":
      return ["repaired:", step.rule + at];
    case "failed":
      return ["failed:", step.message ? visible(step.message) : step.reason];
    case "given_up":
      return ["given up:", step.stop + ", byte " + step.offset];
    case "progress":
      return ["progress:", step.percentage + " %"];
    default:
      return null;
  }
}

function percent(probability) {
  if (probability >= 1) return "100 %";
  return (100 * probability).toFixed(probability > 0.999 ? 4 : 2) + " %";
}

function drawScores(step, key, open) {
  const details = make("details");
  details.dataset.key = key;
  details.open = open.has(key);
  const count = step.candidates.length + step.unlisted_candidates;
  details.append(make("summary", "", count === 1 ? "1 candidate" : count + " candidates"));
  const table = make("table");
  const head = make("tr");
  for (const name of ["Place", "", "Alignment", "Repeats", "Share", "Score", "Prior", "Surprise", "Misfit"]) {
    const cell = make("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const thead = make("thead");
  thead.append(head);
  const body = make("tbody");
  for (const one of step.candidates) {
    const row = make("tr", one.status);
    const bits = (value) => value.toFixed(1);
    for (const text of [one.start, visible(one.reason || one.status), one.alignment, one.overlap + " B", percent(one.posterior),
      bits(one.score), bits(one.prior), bits(one.surprise), bits(one.misfit)]) row.append(make("td", "", text));
    body.append(row);
  }
  table.append(thead, body);
  const frame = make("div", "scores");
  frame.append(table);
  details.append(frame);
  return details;
}

// What people do

byId("stop").addEventListener("click", async () => {
  const answer = opened;
  const button = byId("stop");
  if (!answer) return;
  if (!button.classList.contains("sure")) {
    button.classList.add("sure");
    button.textContent = "Press again to stop";
    answer.sure = setTimeout(unsure, 4000);
    return;
  }
  clearTimeout(answer.sure);
  unsure();
  const response = await fetch("answers/" + encodeURIComponent(answer.id) + "/stop", { method: "POST", headers: { "x-restitch-page": "1" } });
  if (answer === opened && !response.ok) note((await response.json()).error.message);
});

function unsure() {
  const button = byId("stop");
  button.classList.remove("sure");
  button.textContent = "Stop";
}

document.querySelector(".filters").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  filter = button.dataset.filter;
  for (const other of document.querySelectorAll(".filters button")) {
    other.setAttribute("aria-pressed", String(other === button));
  }
  drawList();
});

byId("search").addEventListener("input", (event) => {
  sought = event.target.value.trim();
  drawList();
});

byId("rows").addEventListener("pointerenter", (event) => (isPointed = event.pointerType === "mouse"));
byId("rows").addEventListener("pointerleave", () => {
  isPointed = false;
  drawList();
});

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape" && opened) {
    const id = opened.id;
    location.hash = "";
    const link = [...byId("rows").children].find((row) => row.dataset.id === id)?.querySelector("a");
    return link?.focus();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = document.activeElement.closest("#rows tr");
  if (!step || !(row || document.activeElement === document.body)) return;
  const next = row ? (step > 0 ? row.nextElementSibling : row.previousElementSibling) : byId("rows").firstElementChild;
  next?.querySelector("a").focus();
  event.preventDefault();
});

function follows() {
  let id = null;
  try {
    id = decodeURIComponent(location.hash.slice(1)) || null;
  } catch (error) {
    id = null;
  }
  if ((opened && opened.id) === id) return;
  open(id);
  if (id !== null) byId("name").focus({ preventScroll: true });
}

window.addEventListener("hashchange", follows);
follows();
readList();
setInterval(() => document.visibilityState === "visible" && readList(), LIST_EVERY);
