// The page: which server is looked at, what it offers, and the stream of what happens.
import { $, about, announce, h, plural, took, visible } from "./dom.js";
import { list, listen, use } from "./api.js";
import { promptItem, resourceItem, toolItem } from "./things.js";
import * as wire from "./wire.js";

let servers = [], chosen = "", tab = "tools", end;
const offers = { tools: [], resources: [], prompts: [] };
const items = new Map(); // what is drawn, so that a form that somebody fills in stays when lists come anew
const draw = { tools: toolItem, resources: resourceItem, prompts: promptItem };
const none = { tools: "No tools.", resources: "No resources.", prompts: "No prompts." };

// What a person does about a state that this page cannot change.
const steps = {
  needs: "Give what is missing in the conversation.", "needs connect": "Sign in from the conversation: /mcp connect.", "pending approval": "The change waits for a yes in the conversation: /mcp list.",
  held: "Tools that changed wait for a look in the conversation: /mcp list.", off: "It is switched off: /mcp enable.", failed: "Stderr, and the messages of a new start, say more.",
};

const current = () => servers.find((s) => s.name === chosen);

function say(text) {
  $("line").hidden = !text;
  $("line").textContent = text ?? "";
}

const stateOf = (s) => s.state === "needs" && s.needs?.length ? `needs ${s.needs.join(", ")}` : s.state;

function drawServers() {
  const held = document.activeElement?.closest("#servers [data-name]")?.dataset.name;
  $("servers").replaceChildren(...servers.length ? servers.map((s) => h("li", null, h("button", {
    type: "button", class: "server", "data-name": s.name, "aria-current": s.name === chosen && "true", onclick: () => choose(s.name),
  }, h("span", { class: "dot-cell" }, h("span", { class: `dot dot-${s.state.replaceAll(" ", "-")}`, "aria-hidden": "true" })), h("span", { class: "server-name" }, s.name),
  h("span", { class: "server-line" }, stateOf(s), s.tools > 0 && ` · ${plural(s.tools, "tool")}`)))) : [h("li", { class: "muted" }, "No servers here.")]);
  if (held) document.querySelector(`#servers [data-name="${CSS.escape(held)}"]`)?.focus();
}

function drawHead() {
  const s = current();
  $("server-name").textContent = s ? s.title || s.name : "No server";
  $("restart").hidden = !s || ["off", "shadowed", "pending approval"].includes(s.state);
  $("restart").textContent = ["ready", "starting"].includes(s?.state) ? "Restart" : "Start";
  const facts = s ? [stateOf(s), s.software, s.transport, s.protocol && `MCP ${s.protocol}`, s.pid && `process ${s.pid}`, s.startMs && `started in ${took(s.startMs)}`,
    s.since && `since ${new Date(s.since).toLocaleTimeString("en-GB")}`, s.tokens && `${about(s.tokens)} tokens`, s.calls && plural(s.calls, "call"), s.owner && `of ${s.owner}`] : [];
  $("server-facts").textContent = facts.filter(Boolean).join(" · ");
  $("server-why").hidden = !s?.why;
  $("server-why").textContent = s?.why ?? "";
  $("server-why").classList.toggle("bad", s?.state === "failed");
  const next = s && steps[s.state];
  $("server-next").hidden = !next;
  $("server-next").textContent = next ?? "";
  $("server-guide").hidden = !s?.guide;
  $("server-guide").querySelector("pre").textContent = visible(s?.guide ?? "");
}

function drawPanel() {
  const s = current(), panel = $("panel");
  panel.setAttribute("aria-labelledby", `tab-${tab}`);
  if (!s) return panel.replaceChildren(h("p", { class: "muted" }, "Nothing to look at yet."));
  if (tab === "stderr") {
    const old = panel.querySelector(".stderr"), stick = !old || old.scrollHeight - old.scrollTop - old.clientHeight < 40;
    const words = s.transport && s.transport !== "stdio" ? "A remote server's standard error is on its own machine." : "It has written nothing to its standard error.";
    const pre = s.stderr ? h("pre", { class: "stderr", tabindex: "0" }, visible(s.stderr)) : h("p", { class: "muted" }, words);
    if (pre.textContent !== old?.textContent) panel.replaceChildren(pre);
    if (stick) pre.scrollTop = pre.scrollHeight;
    return find();
  }
  const all = offers[tab].filter((o) => o.server === chosen).map((o) => {
    const key = tab + JSON.stringify(o);
    if (!items.has(key)) items.set(key, draw[tab](o));
    return items.get(key);
  });
  const now = panel.querySelector(".things");
  if (now && now.dataset.of === `${tab} ${chosen}` && now.children.length === all.length && all.every((li, i) => now.children[i] === li)) return find();
  panel.replaceChildren(all.length ? h("ul", { class: "things", "data-of": `${tab} ${chosen}` }, all) : h("p", { class: "muted" }, s.state === "ready" || tab === "tools" ? none[tab] : `${none[tab]} It is ${stateOf(s)}.`));
  find();
}

// find hides what does not have the words that somebody looks for; a short list needs no looking.
function find() {
  const all = [...$("panel").querySelectorAll(":scope > .things > li")], words = $("find-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  $("find").hidden = all.length < 9;
  let shown = 0;
  for (const li of all) {
    const text = li.firstChild.textContent.toLowerCase();
    li.hidden = !$("find").hidden && !words.every((w) => text.includes(w));
    if (!li.hidden) shown++;
  }
  $("find-count").textContent = words.length ? `${shown} of ${all.length}` : "";
}

async function load(what) {
  if (!(what in offers)) return;
  const said = await list(what);
  if (said.error) return say(`${said.error.text}${said.error.hint ? ` · ${said.error.hint.replaceAll("`", "")}` : ""}`);
  // What a server offered stays in sight while it is down, and with it the result of the call that ended it.
  const down = new Set(servers.filter((s) => s.state === "failed" || s.state === "starting").map((s) => s.name));
  const left = new Set(said[what].map((o) => o.server));
  offers[what] = [...said[what], ...offers[what].filter((o) => down.has(o.server) && !left.has(o.server))];
  const keep = new Set(Object.entries(offers).flatMap(([kind, all]) => all.map((o) => kind + JSON.stringify(o))));
  for (const key of items.keys()) if (!keep.has(key)) items.delete(key);
  if (tab === what) drawPanel();
}

async function look() {
  const said = await list("servers");
  if (said.error) return say(said.error.text);
  const before = new Map(servers.map((s) => [s.name, s.state]));
  servers = said.servers;
  const news = servers.filter((s) => before.has(s.name) && before.get(s.name) !== s.state).map((s) => `${s.name}: ${s.state}`);
  if (news.length) announce(news.join(", "));
  if (!current() && servers.length) return choose(servers.find((s) => s.state === "ready")?.name ?? servers[0].name);
  drawServers();
  drawHead();
  drawPanel();
}

let again, lists = "";
// changed looks again, once for what comes in a burst. The tools are fetched anew when the servers' numbers of them changed.
function changed() {
  clearTimeout(again);
  again = setTimeout(async () => {
    await look();
    const now = JSON.stringify(servers.map((s) => [s.name, s.state, s.tools, s.tokens]));
    if (now !== lists) load("tools");
    lists = now;
  }, 150);
}

// heard passes a message on, and says where a question is answered: the page has no field for it.
function heard(m) {
  wire.message(m);
  if (tab === "stderr") changed();
  if (m.kind === "request" && !m.sent && m.method === "elicitation/create") asking(true);
  else if (m.kind === "answer" || m.kind === "error") asking(false);
}

function asking(on) {
  if (on === !$("asks").hidden) return;
  $("asks").hidden = !on;
  $("asks").replaceChildren(...on ? ["The server asks something in the middle of a call. ", document.body.dataset.base ? h("a", { href: document.querySelector(".mark").href, target: "_blank" }, "Answer it in the conversation") : "Nobody can answer it here."] : []);
}

function watch() {
  end?.();
  asking(false);
  end = listen(chosen, {
    servers: changed, message: heard, watching: wire.begin,
    state: (state) => say(state === "open" ? "" : state === "locked" ? "This page is locked again; open the link that bobbin printed." : "bobbin cannot be reached; trying again …"),
  });
}

function choose(name) {
  chosen = name;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  drawServers();
  drawHead();
  drawPanel();
  wire.begin();
  watch();
}

function turn(to, focus) {
  tab = to;
  for (const b of document.querySelectorAll("[role=tab]")) {
    const on = b.id === `tab-${to}`;
    b.setAttribute("aria-selected", String(on));
    b.tabIndex = on ? 0 : -1;
    if (on && focus) b.focus();
  }
  $("find-text").value = "";
  drawPanel();
  if (to !== "tools") load(to);
  if (to === "stderr") look();
}

const tabs = [...document.querySelectorAll("[role=tab]")];
for (const [i, b] of tabs.entries()) {
  b.addEventListener("click", () => turn(b.id.slice(4)));
  b.addEventListener("keydown", (e) => {
    const to = { ArrowRight: tabs[(i + 1) % tabs.length], ArrowLeft: tabs.at(i - 1), Home: tabs[0], End: tabs.at(-1) }[e.key];
    if (to) {
      e.preventDefault();
      turn(to.id.slice(4), true);
    }
  });
}

$("restart").addEventListener("click", async (e) => {
  const button = e.currentTarget;
  button.disabled = true;
  const said = await use("restart", { server: chosen });
  button.disabled = false;
  announce(said.error ? said.error.text : `${chosen} starts again`);
  say(said.error ? said.error.text : "");
  look();
});

$("find-text").addEventListener("input", find);
setInterval(() => { if (tab === "stderr" && !document.hidden) look(); }, 2000); // what a server prints is no message
wire.start();
chosen = decodeURIComponent(location.hash.slice(1));
await look();
if (!end && current()) choose(chosen);
else if (!end) watch();
await load("tools");
document.body.dataset.ready = "";
