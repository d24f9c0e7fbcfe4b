// Wires the page: the conversation, the column of servers, the audit panel.
import { $, h, plural, spans } from "./dom.js";
import { drawReply, tick } from "./draw.js";
import { answerOf, update } from "./answer.js";
import { drawBoard } from "./board.js";
import { setupComposer } from "./composer.js";
import * as net from "./net.js";

const log = $("log"), scroll = $("scroll");
const mine = new Set(); // tags of this page's requests that wait for a reply
const typed = new Map(); // tag of a form's answer → its values, to fill the form again if they are refused
const seen = new Map(); // entry number → its text, to redraw only what changed
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let servers = null;

const newTag = () => Math.random().toString(36).slice(2, 12);

async function perform(run, values) {
  const tag = newTag();
  mine.add(tag);
  if (values) typed.set(tag, values);
  const { ok, entry } = await run(tag);
  if (ok) draw(entry);
  else { // refused before it became part of the conversation
    mine.delete(tag);
    append(entry, true);
  }
  mine.delete(tag);
  if (!entry.reply?.form) typed.delete(tag);
  return { ok, entry };
}

const send = (text, files) => {
  drawer(false);
  return perform((tag) => (files?.length ? net.attach(text, files, tag) : net.ask({ text, tag })));
};
const upload = (file) => {
  const most = /\.(mcpb|dxt)$/i.test(file.name) ? 20 : 1; // a bundle brings a server's files
  if (file.size <= most << 20) return perform((tag) => net.upload(file, tag));
  append({ kind: "reply", reply: { bad: true, code: "too_large", blocks: [{ text: `${file.name} is larger than ${most} MiB; it was not sent` }] } }, true);
};

function on(entry) {
  return {
    typed: typed.get(entry.tag),
    save: net.save,
    preview: net.preview,
    act: async (choice, values) => {
      if (answerOf(entry.reply)) return stop(entry, choice);
      const { ok, entry: answer } = await perform((tag) => net.ask({ tag, action: { id: entry.reply.id, choice, values } }), values && withoutSecrets(entry.reply.form, values));
      return ok && answer.reply?.replace === entry.reply.id;
    },
  };
}

// stop presses a running answer's button. What comes of it is the answer's to show; a refusal is shown.
async function stop(entry, choice) {
  const { entry: answer } = await net.ask({ aside: true, action: { id: entry.reply.id, choice } });
  if (answer.reply?.blocks?.length) append(answer, true);
  return !answer.reply?.bad;
}

function withoutSecrets(form, values) {
  const secret = new Set(form.fields.filter((f) => f.kind === "secret").map((f) => f.name));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !secret.has(name)));
}

// draw puts an entry in its place, or anew where it stands.
function draw(entry) {
  if (entry.gone) return gone(entry);
  const text = JSON.stringify(entry);
  const before = seen.get(entry.n);
  if (before === text || before && entry.pending && !before.includes('"pending":true')) return; // the answer came by both ways
  const fresh = !seen.has(entry.n);
  seen.set(entry.n, text);
  const asked = entry.tag && mine.has(entry.tag);
  const old = log.querySelector(`[data-n="${entry.n}"]`);
  const within = old?.contains(document.activeElement);
  const near = nearEnd();
  if (old && grow(old, entry)) {
    if (!entry.pending && within && !old.contains(document.activeElement)) toField(); // its Stop had the focus
    if (near) toEnd("instant");
    return;
  }
  const li = item(entry);
  if (old) old.replaceWith(li);
  else log.insertBefore(li, [...log.children].find((c) => Number(c.dataset.n) > entry.n) ?? null);
  tick(li);
  scene();
  if (asked && entry.reply && !entry.pending) arrive(li, entry);
  else if (within && entry.settled) toField();
  else if (within) (li.querySelector(".card-title") ?? scroll).focus({ preventScroll: true });
  else if (near || entry.kind === "you" || asked) toEnd();
  else if (fresh) $("newest").hidden = false;
  if (fresh && document.hidden && entry.kind !== "you") document.title = `● ${document.title.replace(/^● /, "")}`;
}

// gone takes an entry back of which there is nothing to show: a message that went into an answer on its way.
function gone({ n }) {
  log.querySelector(`[data-n="${n}"]`)?.remove();
  seen.set(n, "");
}

// grow brings an answer that stands there to its next state, the last one included; false: the entry is drawn anew.
function grow(li, entry) {
  const a = answerOf(entry.reply), el = li.querySelector(".answer");
  if (!a || !el || !li.dataset.answer) return false;
  update(el, a);
  li.toggleAttribute("data-joined", Boolean(entry.pending && a.joined));
  if (entry.pending) return true;
  li.querySelector(".choices")?.remove();
  li.setAttribute("aria-busy", "false");
  li.querySelector(".reply").classList.toggle("bad", Boolean(entry.reply.bad));
  return true;
}

// arrive shows a reply that this page asked for. Its heading gets the focus, never its first button; a form's first field
// does. Somebody who types already is left alone.
function arrive(li, entry) {
  const target = li.querySelector(".form :is(input, select, textarea)") ?? li.querySelector(".card-title");
  const typing = document.activeElement === $("say") && $("say").value !== "";
  if (target && !entry.settled && !typing) target.focus({ preventScroll: true });
  else if (document.activeElement === document.body) toField(); // the button that was pressed is gone
  if (li.offsetHeight > scroll.clientHeight - 40) li.scrollIntoView({ block: "start", behavior: motion() });
  else toEnd();
}

// toField gives the focus to the message field, unless that would bring up a keyboard on the screen.
const touch = matchMedia("(pointer: coarse)");
const toField = () => (touch.matches ? scroll : $("say")).focus({ preventScroll: true });

function append(entry, loud) {
  const li = item(entry);
  log.append(li);
  scene();
  if (loud) toEnd();
}

function item(entry) {
  if (entry.kind === "you") return h("div", { class: "you", "data-n": entry.n }, h("span", { class: "vh" }, "You: "), h("span", { class: entry.text.startsWith("/") ? "said mono" : "said" }, entry.text));
  const li = h("div", { class: `from-bot ${entry.kind}`, "data-n": entry.n });
  const answer = answerOf(entry.reply);
  if (answer) {
    li.dataset.answer = entry.n;
    li.toggleAttribute("data-joined", Boolean(entry.pending && answer.joined));
    li.setAttribute("aria-busy", String(Boolean(entry.pending))); // heard when it is whole, not word by word
  }
  if (entry.pending && !entry.reply) li.append(pending(entry));
  else li.append(drawReply(entry.reply, entry, on(entry)));
  return li;
}

function pending(entry) {
  const text = entry.progress?.at(-1) ?? "working …";
  return h("div", { class: "pending" }, h("span", { class: "dot dot-starting", "aria-hidden": "true" }), h("span", { class: "pending-text" }, spans(text)),
    h("button", { type: "button", class: "small", onclick: () => net.stop(entry.n) }, "Stop"));
}

function progress({ n, progress: list }) {
  const li = log.querySelector(`[data-n="${n}"] .pending-text`);
  li?.replaceChildren(...spans(list.at(-1)));
}

function history({ entries }) {
  log.setAttribute("aria-busy", "true");
  const keep = new Set(entries.map((e) => e.n));
  for (const li of [...log.children]) if (!keep.has(Number(li.dataset.n))) { li.remove(); seen.delete(Number(li.dataset.n)); }
  entries.forEach(draw);
  log.setAttribute("aria-busy", "false");
  loaded = true;
  scene();
  toEnd("instant");
  refresh();
}

let loaded = false, greeted = false;
const narrow = matchMedia("(max-width: 36rem)");
// scene shows what to do while there is no conversation: to a newcomer how to bring servers, to others what is here.
function scene() {
  const empty = loaded && servers !== null && log.children.length === 0;
  const newcomer = empty && servers.length === 0;
  $("scene").hidden = $("welcome").hidden = !empty;
  $("scene").classList.toggle("known", empty && !newcomer);
  document.body.classList.toggle("empty", empty);
  document.body.classList.toggle("first", newcomer);
  $("say").placeholder = newcomer ? 'Paste a config here, such as {"mcpServers": {"github": {"command": "npx", …}}}'
    : narrow.matches ? "Message or command" : "Message, /mcp command, or paste a config";
  if (!empty) return;
  const tools = servers.reduce((n, s) => n + s.count, 0);
  $("scene-title").textContent = newcomer ? "Bring your MCP servers" : `${plural(servers.length, "server")}, ${plural(tools, "tool")}`;
  $("scene-text").textContent = newcomer ? newcomerText : "Open a server in the list to see its tools and call one by hand. Paste a config or drop a file to bring another.";
  if (greeted) return;
  greeted = true;
  net.welcome().then(({ ok, entry }) => { if (ok) $("welcome").replaceChildren(drawReply(entry.reply, entry, on(entry))); });
}
const newcomerText = $("scene-text").textContent;

const nearEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
const motion = () => (calm.matches ? "instant" : "smooth");
function toEnd(how) {
  $("newest").hidden = true;
  scroll.scrollTo({ top: scroll.scrollHeight, behavior: how ?? motion() });
}

let soon;
function refresh() {
  clearTimeout(soon);
  soon = setTimeout(async () => {
    try {
      const board = await net.board();
      servers = board.servers;
      drawBoard(board, send);
    } catch {
      if (servers === null) $("board").replaceChildren(h("p", { class: "muted" }, "The servers could not be read. ", h("button", { type: "button", class: "small", onclick: refresh }, "Try again")));
    }
    scene();
  }, 120);
}

function state(is) {
  const words = {
    lost: "The connection to bobbin is lost. Trying again …",
    locked: "bobbin was started anew. Open the link that it printed.",
  };
  $("line").hidden = is === "open";
  $("line").textContent = words[is] ?? "";
}

function drawer(show) {
  const was = document.body.classList.contains("drawer");
  if (was === show) return;
  document.body.classList.toggle("drawer", show);
  document.querySelector("main").inert = show;
  $("open-servers").setAttribute("aria-expanded", String(show));
  (show ? $("servers-title") : $("open-servers")).focus();
}

async function audit() {
  if (!$("audit").open) $("audit").showModal();
  $("audit-title").focus();
  const { entry } = await net.ask({ text: "/mcp audit 100", aside: true });
  $("audit-body").replaceChildren(drawReply(entry.reply, entry, on(entry)));
}

function setup() {
  setupComposer({ send, upload });
  $("thread").addEventListener("change", (e) => { location.href = `/t/${encodeURIComponent(e.target.value)}`; });
  $("new").addEventListener("click", () => {
    const id = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => "abcdefghijkmnpqrstuvwxyz23456789"[b % 32]).join("");
    location.href = `/t/web-${id}`;
  });
  $("open-servers").addEventListener("click", () => drawer(!document.body.classList.contains("drawer")));
  $("close-servers").addEventListener("click", () => drawer(false));
  for (const id of ["open-audit", "open-audit-too"]) $(id).addEventListener("click", audit);
  $("audit-again").addEventListener("click", audit);
  $("audit-close").addEventListener("click", () => $("audit").close());
  $("newest").addEventListener("click", () => toEnd());
  scroll.addEventListener("scroll", () => { if (nearEnd()) $("newest").hidden = true; }, { passive: true });
  addEventListener("keydown", (e) => { if (e.key === "Escape" && document.body.classList.contains("drawer")) drawer(false); });
  matchMedia("(min-width: 56.01rem)").addEventListener("change", (e) => { if (e.matches) drawer(false); });
  document.addEventListener("command", () => drawer(false));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { document.title = document.title.replace(/^● /, ""); refresh(); } });
  narrow.addEventListener("change", scene);
  setInterval(() => tick(document), 1000);
  net.listen({ history, entry: draw, answer: draw, progress, board: refresh, state });
  $("say").focus();
}

setup();
