// The page: which server is looked at, what it offers, and the stream of what happens.
import { $, announce, h, plural, took, visible } from "./dom.js";
import { list, listen, use } from "./api.js";
import { promptItem, resourceItem, toolItem } from "./things.js";
import * as wire from "./wire.js";

let servers = [], chosen = "", tab = "tools", end;
const offers = { tools: [], resources: [], prompts: [] };
const items = new Map(); // what is drawn, so that a form that somebody fills in stays when lists come anew
const draw = { tools: toolItem, resources: resourceItem, prompts: promptItem };
const none = { tools: "No tools.", resources: "No resources.", prompts: "No prompts." };

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
  $("restart").hidden = !s;
  const facts = s ? [stateOf(s), s.transport, s.protocol && `MCP ${s.protocol}`, s.pid && `process ${s.pid}`, s.startMs && `started in ${took(s.startMs)}`,
    s.since && `since ${new Date(s.since).toLocaleTimeString("en-GB")}`, s.tokens && `about ${s.tokens.toLocaleString("en")} tokens`, s.calls && plural(s.calls, "call"), s.owner && `of ${s.owner}`] : [];
  $("server-facts").textContent = facts.filter(Boolean).join(" · ");
  $("server-why").hidden = !s?.why;
  $("server-why").textContent = s?.why ?? "";
  $("server-why").classList.toggle("bad", s?.state === "failed");
}

function drawPanel() {
  const s = current(), panel = $("panel");
  panel.setAttribute("aria-labelledby", `tab-${tab}`);
  if (!s) return panel.replaceChildren(h("p", { class: "muted" }, "Nothing to look at yet."));
  if (tab === "stderr") {
    const old = panel.querySelector(".stderr"), stick = !old || old.scrollHeight - old.scrollTop - old.clientHeight < 40;
    const words = s.transport && s.transport !== "stdio" ? "A remote server's standard error is on its own machine." : "It has written nothing to its standard error.";
    const pre = s.stderr ? h("pre", { class: "stderr", tabindex: "0" }, visible(s.stderr)) : h("p", { class: "muted" }, words);
    panel.replaceChildren(pre);
    if (stick) pre.scrollTop = pre.scrollHeight;
    return;
  }
  const all = offers[tab].filter((o) => o.server === chosen).map((o) => {
    const key = tab + JSON.stringify(o);
    if (!items.has(key)) items.set(key, draw[tab](o));
    return items.get(key);
  });
  const now = panel.querySelector(".things");
  if (now && now.dataset.of === `${tab} ${chosen}` && now.children.length === all.length && all.every((li, i) => now.children[i] === li)) return;
  panel.replaceChildren(all.length ? h("ul", { class: "things", "data-of": `${tab} ${chosen}` }, all) : h("p", { class: "muted" }, none[tab]));
}

async function load(what) {
  if (!(what in offers)) return;
  const said = await list(what);
  if (said.error) return say(`${said.error.text}${said.error.hint ? ` · ${said.error.hint.replaceAll("`", "")}` : ""}`);
  offers[what] = said[what];
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

function watch() {
  end?.();
  end = listen(chosen, {
    servers: changed, message: wire.message, watching: wire.begin,
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
  drawPanel();
  if (to !== "tools") load(to);
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
  say(said.error ? said.error.text : "");
  look();
});

wire.start();
chosen = decodeURIComponent(location.hash.slice(1));
await look();
if (!end && current()) choose(chosen);
else if (!end) watch();
await load("tools");
document.body.dataset.ready = "";
