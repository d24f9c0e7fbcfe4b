// The column of servers.
import { $, about, announce, h, plural, spans } from "./dom.js";
import { mark } from "./draw.js";

const kinds = [["local", "Local"], ["connector", "Connectors"], ["admin", "The operator's"]];
const open = new Set();
let before = new Map();

export function drawBoard(board, send) {
  const held = document.activeElement?.closest?.("#board [data-key]")?.dataset.key;
  const now = new Map(board.servers.map((s) => [s.name, s.state]));
  const news = [...now].filter(([n, s]) => before.has(n) && before.get(n) !== s).map(([n, s]) => `${n}: ${s}`);
  if (news.length) announce(news.join(", "));
  before = now;
  $("count").textContent = String(board.servers.length);
  const known = new Set(kinds.map(([k]) => k));
  const groups = kinds.map(([kind, title]) => [title, board.servers.filter((s) => s.kind === kind || kind === "local" && !known.has(s.kind))]).filter(([, list]) => list.length);
  const tools = board.servers.reduce((n, s) => n + s.count, 0);
  const tokens = board.servers.reduce((n, s) => n + (s.tokens ?? 0), 0);
  const broken = board.problems?.length ? [h("p", { class: "why bad" }, `${board.problems[0].file || "a file"} cannot be read; what stood there before goes on. `,
    h("button", { type: "button", class: "small", "data-key": "problems", onclick: () => send("/mcp list") }, "Show"))] : [];
  $("board").replaceChildren(...broken, ...board.servers.length === 0
    ? [h("p", { class: "muted empty" }, "No servers in this thread yet. What you add shows up here, with its state and its tools.")]
    : [...groups.map(([title, list]) => h("section", null, h("h3", { class: "kind" }, title), h("ul", null, list.map((s) => item(s, send))))),
      tools > 0 && h("p", { class: "muted total" }, plural(tools, "tool"), tokens ? `, ${about(tokens)} tokens` : "")].filter(Boolean));
  if (held) document.querySelector(`#board [data-key="${CSS.escape(held)}"]`)?.focus();
}

function item(s, send) {
  const key = `${s.kind}/${s.name}`;
  const panel = h("div", { class: "server-more", id: `server-${key}`, hidden: !open.has(key) });
  if (open.has(key)) panel.append(...more(s, send));
  const button = h("button", {
    type: "button", class: "server", "data-key": key, "aria-expanded": String(open.has(key)), "aria-controls": panel.id,
    onclick: () => {
      const show = panel.hidden;
      panel.hidden = !show;
      button.setAttribute("aria-expanded", String(show));
      if (show) {
        open.add(key);
        panel.replaceChildren(...more(s, send));
      } else open.delete(key);
    },
  }, mark(s.state),
  h("span", { class: "server-name" }, s.name), (s.count > 0 || s.state === "ready") && h("span", { class: "server-tools" }, plural(s.count, "tool")),
  h("span", { class: "server-line" }, h("span", { class: `state state-${s.state.replaceAll(" ", "-")}` }, stateOf(s)), s.owner && ` · ${s.owner}`));
  return h("li", null, button, panel);
}

function stateOf(s) {
  if (s.state === "needs" && s.needs?.length) return `needs ${s.needs.join(", ")}`;
  return s.state + (s.pending ? ", a change waits" : "");
}

function more(s, send) {
  const facts = [];
  if (s.why) facts.push(h("p", { class: s.state === "failed" ? "why bad" : "why" }, spans(s.why)));
  const line = [];
  if (s.runsAs) line.push(`runs as ${s.runsAs}`);
  if (s.since) line.push(ago(s.since));
  if (s.calls) line.push(plural(s.calls, "call"));
  if (s.writing) line.push(s.count === 1 ? "it writes" : `${s.writing} of its tools ${s.writing === 1 ? "writes" : "write"}`);
  if (s.blocked) line.push(`${s.blocked} denied`);
  if (line.length) facts.push(h("p", { class: "muted" }, line.join(" · ")));
  const press = (label, text) => h("button", { type: "button", class: "small", "data-key": `${s.kind}/${s.name}/${label}`, onclick: () => send(text) }, label, h("span", { class: "vh" }, ` ${s.name}`));
  const actions = [];
  if (s.state === "needs" && s.owner === "yours" && s.needs?.length) actions.push(press(`Give ${s.needs[0]}`, `/mcp secrets set ${s.needs[0]} ${s.name}`));
  if (s.connect) actions.push(press("Connect yours", `/mcp connect ${s.name}`));
  if (s.mine && (s.pending || s.state === "pending approval" || s.held)) actions.push(press("Show the change", `/mcp enable ${s.name}`));
  actions.push(press("Show", `/mcp show ${s.name}`));
  if (s.state === "failed") actions.push(press("Find out why", `/mcp doctor ${s.name}`));
  if (s.mine) {
    actions.push(press("Edit", `/mcp edit ${s.name}`), s.state === "off" ? press("Enable", `/mcp enable ${s.name}`) : press("Disable", `/mcp disable ${s.name}`));
    actions.push(press("Remove", `/mcp remove ${s.name}`));
  }
  facts.push(h("div", { class: "actions" }, actions));
  if (s.tools?.length) facts.push(h("ul", { class: "tools", "aria-label": `Tools of ${s.name}` }, s.tools.map((t) => toolItem(t, send))));
  else if (!s.count) facts.push(h("p", { class: "muted" }, "no tools known yet"));
  return facts;
}

function toolItem(t, send) {
  return h("li", null, h("button", {
    type: "button", class: "tool", "data-key": t.full, disabled: /\s/.test(t.full), title: `/mcp call ${t.full}`, onclick: () => send(`/mcp call ${t.full}`),
  }, h("span", { class: "tool-name" }, t.name, t.mark && t.mark !== "runs" && h("span", { class: "badge" }, t.mark)),
  t.description && h("span", { class: "tool-text" }, t.description)));
}

function ago(since) {
  const min = Math.max(0, Math.round((Date.now() - Date.parse(since)) / 60_000));
  if (min < 1) return "just started";
  if (min < 60) return `up ${min} min`;
  return min < 48 * 60 ? `up ${Math.floor(min / 60)} h` : `up ${Math.floor(min / 1440)} d`;
}
