// The assistant's answer as elements. A model's words become text, never markup: links are shown with their addresses and lead nowhere,
// pictures are not fetched.
import { h, plural, spans as commands } from "./dom.js";

const kinds = { b: "strong", i: "em", s: "s", c: "code" };

const inline = (spans) => (spans ?? []).map((s) => {
  if (!s.k) return s.t;
  if (s.k === "c") return h("code", null, s.t);
  if (s.k !== "a") return h(kinds[s.k] ?? "span", null, inline(s.s));
  const same = !s.s?.length || s.s.length === 1 && s.s[0].t === s.u;
  return h("span", { class: "inert" }, !same && [h("span", { class: "link-text" }, inline(s.s)), " "], h("code", { class: "address" }, s.u));
});

function block(n) {
  switch (n.k) {
    case "h": return h("p", { class: `md-h md-h${n.level}`, role: "heading", "aria-level": String(Math.min(n.level + 2, 6)) }, inline(n.spans));
    case "pre": return h("figure", { class: "result" }, h("figcaption", null, h("span", null, n.lang || "code"), copier(n.text)), h("pre", { tabindex: "0" }, h("code", { class: "cl" }, n.text)));
    case "ul": return h("ul", { class: "md-list" }, n.items.map(li));
    case "ol": return h("ol", { class: "md-list", start: n.level === 1 ? undefined : String(n.level ?? 0) }, n.items.map(li));
    case "quote": return h("blockquote", null, n.items[0]?.map(block));
    case "hr": return h("hr");
    case "table": return grid(n.rows);
    default: return h("p", null, inline(n.spans));
  }
}

const li = (blocks) => h("li", null, blocks?.map(block));

function grid([head, ...rows]) {
  return h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", { role: "table", class: "md-table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map((c) => h("th", { role: "columnheader", scope: "col" }, inline(c))))),
    h("tbody", { role: "rowgroup" }, rows.map((r) => h("tr", { role: "row" }, r.map((c) => h("td", { role: "cell" }, inline(c))))))));
}

export function copier(text) {
  const b = h("button", { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      b.textContent = "Copied";
    } catch {
      b.textContent = "Not copied: the browser forbids it";
    }
  } }, "Copy");
  return b;
}

const signs = { done: "✓", failed: "✕", denied: "✕", stopped: "■", waiting: "…", running: "" };

// step is one line that opens to what the tool was given and gave, for the one who asked.
function step(s) {
  const [name, ...rest] = s.line.split(" · ");
  const line = [h("span", { class: `step-sign step-${s.state}`, "aria-hidden": "true" }, signs[s.state] || h("span", { class: "dot dot-starting" })),
    h("span", { class: "step-line" }, h("b", null, name), rest.length ? " · " + rest.join(" · ") : "")];
  if (!s.args && !s.result) return h("div", { class: "step" }, h("p", { class: "step-head" }, line));
  return h("details", { class: "step" }, h("summary", { class: "step-head" }, line),
    s.args && part("given", s.args), s.result && part("gave", s.result));
}

const part = (label, text) => h("figure", { class: "result" }, h("figcaption", null, h("span", null, label), copier(text)), h("pre", { tabindex: "0" }, h("code", { class: "cl" }, text)));

// drawAnswer gives the element of an answer; update brings it to a later state and leaves alone what did not change.
export function drawAnswer(a) {
  const el = h("div", { class: "answer" }, h("div", { class: "steps", role: "group" }), h("div", { class: "md" }), h("p", { class: "answer-status", hidden: true }), h("p", { class: "answer-end", hidden: true }));
  el.had = { steps: [], text: [] };
  update(el, a);
  return el;
}

export function update(el, a) {
  const [steps, text, status, end] = el.children;
  keyed(steps, el.had.steps, a.steps ?? [], step);
  keyed(text, el.had.text, a.text ?? [], block);
  steps.hidden = !a.steps?.length;
  steps.setAttribute("aria-label", plural(a.steps?.length ?? 0, "step"));
  const now = a.done ? "" : a.status || (a.text?.length || a.steps?.length ? "" : "thinks …");
  if (status.textContent !== now) status.replaceChildren(h("span", { class: "dot dot-starting", "aria-hidden": "true" }), " ", now);
  status.hidden = !now;
  const foot = !a.done ? "" : [a.model, a.tokens && plural(a.tokens, "token")].filter(Boolean).join(" · ");
  end.replaceChildren(a.done && a.why ? h("span", { class: "answer-why" }, commands(a.why)) : "", a.why && foot ? " · " : "", foot);
  end.hidden = !end.textContent;
}

// keyed replaces the children whose data changed. One that was opened, and has the focus, keeps both.
function keyed(parent, had, list, make) {
  list.forEach((data, i) => {
    const text = JSON.stringify(data);
    if (had[i] === text) return;
    const old = parent.children[i], el = make(data);
    had[i] = text;
    if (!old) return parent.append(el);
    const focused = old.contains(document.activeElement) && old.querySelector("summary");
    if (old.open) el.open = true;
    old.replaceWith(el);
    if (focused) el.querySelector("summary")?.focus({ preventScroll: true });
  });
  while (parent.children.length > list.length) parent.lastChild.remove();
  had.length = list.length;
}

export const answerOf = (reply) => reply?.blocks?.find((b) => b.answer)?.answer;
