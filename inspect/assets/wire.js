// The messages of one server as they pass.
import { $, bytes, copier, h, pretty, save, took, visible } from "./dom.js";

const most = 500; // rows, as many as bobbin keeps
let paused = [], kept = [], last = 0, count = 0;

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

const matches = (row) => {
  const kind = $("wire-kind").value, is = row.dataset.kind;
  return !kind || !is || (kind === "calls" ? ["request", "answer", "error"].includes(is) : kind === "bad" ? ["error", "noise"].includes(is) : kind === is);
};

function row(m) {
  const body = h("pre", { tabindex: "0" });
  const what = m.kind === "noise" ? "not JSON-RPC" : m.method || (m.kind === "error" ? "error" : "answer");
  const note = m.kind === "answer" ? " answer" : m.kind === "error" ? " error" : m.kind === "notification" && !m.method?.startsWith("notifications/") ? " notification" : "";
  const el = h("details", { ontoggle: () => {
    if (!el.open || body.firstChild) return;
    body.before(h("div", { class: "body-head" }, h("span", { class: "muted" }, [m.as && `as ${m.as}`, m.id && `id ${visible(m.id)}`].filter(Boolean).join(" · ")), copier(() => m.text, "Copy")));
    body.append(visible(m.kind === "noise" ? m.text : pretty(m.text)), m.text.length < m.size && m.size > 65536 ? `\n… ${bytes(m.size)} in all` : "");
  } }, h("summary", null, h("time", { datetime: m.at }, time.format(new Date(m.at))),
    h("span", { class: "way" }, h("span", { "aria-hidden": "true" }, m.sent ? "→" : "←"), h("span", { class: "vh" }, m.sent ? "sent" : "received")),
    h("span", { class: "what" }, visible(what), h("span", { class: ["error", "noise"].includes(m.kind) ? "note bad" : "note" }, note), m.id && h("span", { class: "note" }, ` #${visible(m.id)}`)),
    h("span", { class: "cost" }, [m.ms !== undefined && took(m.ms), bytes(m.size)].filter(Boolean).join(" · "))), body);
  const li = h("li", { "data-kind": m.kind }, el);
  li.hidden = !matches(li);
  return li;
}

function put(m) {
  const list = $("wire"), stick = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  if (!count) list.replaceChildren();
  if (last && m.n > last + 1) list.append(h("li", { class: "gap" }, `${m.n - last - 1} more are no longer kept`));
  last = m.n;
  list.append(row(m));
  kept.push(m);
  if (kept.length > most) kept.shift();
  while (list.children.length > most) list.firstChild.remove();
  $("wire-count").textContent = String(++count);
  if (stick) list.scrollTop = list.scrollHeight;
}

export function message(m) {
  if ($("wire-pause").getAttribute("aria-pressed") === "true") {
    paused.push(m);
    if (paused.length > most) paused.shift();
    $("wire-pause").textContent = `Go on (${paused.length})`;
  } else put(m);
}

export function clear(words = "Nothing has passed since you opened this. Call a tool, and both sides of it are here.") {
  count = 0;
  paused = [];
  kept = [];
  $("wire-count").textContent = "0";
  $("wire").replaceChildren(h("li", { class: "none" }, words));
}

// begin empties the list for another server, or the same one after the connection was lost.
export function begin() {
  last = 0;
  clear();
}

export function start() {
  $("wire-clear").addEventListener("click", () => clear());
  $("wire-save").addEventListener("click", () => save(kept.map((m) => `${JSON.stringify(m)}\n`).join(""), `messages-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`));
  $("wire-kind").addEventListener("change", () => { for (const li of $("wire").children) li.hidden = !matches(li); });
  $("wire-pause").addEventListener("click", (e) => {
    const on = e.currentTarget.getAttribute("aria-pressed") !== "true";
    e.currentTarget.setAttribute("aria-pressed", String(on));
    e.currentTarget.textContent = on ? "Go on" : "Pause";
    if (on) return;
    for (const m of paused) put(m);
    paused = [];
  });
}
