// A reply as elements: the one place that knows how each kind of block looks.
import { bytes, h, plural, spans, unique } from "./dom.js";
import { drawForm } from "./form.js";
import { answerOf, copier, drawAnswer } from "./answer.js";

const foldOver = 40; // lines of a diff or a result that are shown before "Show all"

const badWords = {
  denied: "Refused", expired: "Expired", failed: "Failed", unknown: "Outcome unknown", conflict: "Changed meanwhile",
  invalid: "Not valid", unreadable: "Not readable", too_large: "Too large", needs: "Something is missing", internal: "Fault",
  not_found: "Not found", not_ready: "Not ready", held: "Held", pending: "Waits for approval", missing: "Not available",
};

export const mark = (state) => h("span", { class: `dot dot-${(state || "off").replaceAll(" ", "-")}`, "aria-hidden": "true" });

// drawReply gives the element of an entry's reply. on has act(choice, values) → Promise<bool>, save(file), expired(id).
export function drawReply(reply, entry, on) {
  const answer = answerOf(reply);
  const card = !answer && (reply.form || reply.choices?.length || reply.blocks?.some((b) => b.diff || b.facts || b.open));
  const el = h("article", { class: `reply${card ? " card" : ""}${reply.bad ? " bad" : ""}` });
  const tags = [];
  if (reply.bad) tags.push(h("span", { class: "tag tag-bad" }, h("span", { "aria-hidden": "true" }, "✕ "), badWords[reply.code] ?? "Not done"));
  if (reply.private) tags.push(h("span", { class: "tag" }, h("span", { "aria-hidden": "true" }, "◦ "), "seen by you alone"));
  const open = (reply.choices?.length || reply.form) && !entry.settled;
  if (tags.length) el.append(h("p", { class: "tags" }, tags));

  const blocks = [...(reply.blocks ?? [])];
  if (card) {
    const title = unique("card");
    const first = blocks[0]?.text ? blocks.shift().text : reply.form?.title || "";
    if (first) {
      const [whole, ...rest] = first.split("\n");
      const [, line, by] = whole.match(/^(.+) · (asked by [^·]+)$/) ?? [, whole];
      const ends = reply.expires && open && h("span", { class: "expires", "data-expires": reply.expires });
      el.append(h("div", { class: "card-head" }, h("h3", { id: title, tabindex: "-1", class: "card-title" }, spans(line)),
        (by || ends) && h("p", { class: "card-meta" }, by, by && ends && " · ", ends)));
      if (rest.length) el.append(h("p", null, spans(rest.join("\n"))));
      el.setAttribute("aria-labelledby", title);
    }
  }
  const body = blocks.flatMap((b) => drawBlock(b, on, entry));
  // A question in the middle of something that goes on above it makes room once it is answered.
  if (entry.settled && entry.kind === "notice" && reply.private && body.length) el.append(h("details", { class: "asked" }, h("summary", null, "What was asked"), body));
  else el.append(...body);
  if (entry.settled) el.append(h("p", { class: "settled" }, h("span", { "aria-hidden": "true" }, "→ "), entry.settled));
  else if (reply.form) {
    if (reply.bad && reply.form.title) el.append(h("p", { class: "again" }, spans(reply.form.title)));
    el.append(drawForm(reply, on, buttons(reply, on, "form")));
  }
  else if (reply.choices?.length) el.append(buttons(reply, on));
  return el;
}

function buttons(reply, on, inForm) {
  const row = h("div", { class: "choices" });
  for (const c of reply.choices ?? []) {
    row.append(h("button", {
      type: "button", class: inForm && c.style === "primary" ? "" : c.style,
      onclick: async () => {
        busy(row, true);
        if (!await on.act(c.key) && row.isConnected) busy(row, false);
      },
    }, c.label));
  }
  return row;
}

export function busy(scope, is) {
  for (const b of scope.querySelectorAll("button")) b.disabled = is;
}

function drawBlock(b, on, entry) {
  if (b.text) return [h("p", null, spans(b.text))];
  if (b.facts) return [facts(b.facts)];
  if (b.diff) return [diff(b.diff)];
  if (b.code) return [code(b.code)];
  if (b.problems) return [problems(b.problems)];
  if (b.table) return [table(b.table)];
  if (b.file) return [fileLine(b.file, on)];
  if (b.open) return [page(b.open, entry)];
  if (b.answer) return [drawAnswer(b.answer)];
  if (b.warning) return [h("p", { class: "warning" }, h("span", { class: "sign", "aria-hidden": "true" }, "!"), h("span", null, h("span", { class: "vh" }, "Warning: "), spans(b.warning)))];
  return [];
}

// page is a link that only a press opens, with its whole address beside it. One that no browser should follow, and one that is settled,
// is its address alone.
function page({ label, url }, entry) {
  const [, scheme, host] = url.match(/^(https?:\/\/)([^/?#@]+)/) ?? [, "", ""];
  return h("div", { class: "page" },
    !entry.settled && followed(url) && h("a", { class: "open", href: url, target: "_blank", rel: "noopener noreferrer" }, label, h("span", { class: "vh" }, ", in a new tab")),
    h("code", { class: "address" }, scheme, host && h("b", null, host), url.slice(scheme.length + host.length)));
}

function followed(url) {
  try {
    const u = new URL(url);
    return !u.username && !u.password && (u.protocol === "https:" || u.protocol === "http:" && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(u.hostname));
  } catch {
    return false;
  }
}

const facts = (list) => h("dl", { class: "facts" }, list.map((f) => h("div", null,
  h("dt", null, f.label), h("dd", null, spans(f.value), f.note && h("span", { class: "note" }, " ", spans(f.note))))));

function diff(text) {
  const lines = text.replace(/^@@ -[01][, ].*\n/gm, "").replace(/\n$/, "").split("\n"); // a hunk at the top of a file skips nothing
  const count = (sign) => lines.filter((l) => l[0] === sign).length;
  const words = [count("+") && `${plural(count("+"), "line")} added`, count("-") && `${plural(count("-"), "line")} removed`].filter(Boolean).join(", ");
  const kinds = { "+": ["add", "added: "], "-": ["del", "removed: "], "@": ["hunk", ""], "#": ["file-of", ""] };
  const rows = lines.map((l) => {
    const [kind, word] = kinds[l[0]] ?? ["same", ""];
    const rest = kind === "hunk" ? l : l.slice(1).replace(kind === "file-of" ? /^ / : /^(?!)/, "");
    return h("div", { class: `dl ${kind}` },
      h("span", { class: "dsign", "aria-hidden": "true" }, kind === "hunk" || kind === "file-of" ? "" : l[0] || " "),
      word && h("span", { class: "vh" }, word), h("span", { class: "dtext" }, kind === "hunk" ? "⋯" : rest || " "));
  });
  return h("figure", { class: "diff" }, h("figcaption", null, h("span", null, words || "no lines changed"), copier(text)), fold(h("div", { class: "dlines" }, rows)));
}

function code(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  return h("figure", { class: "result" }, h("figcaption", null, h("span", null, plural(lines.length, "line")), copier(text)),
    fold(h("pre", { tabindex: "0" }, lines.map((l) => h("code", { class: "cl" }, l, "\n")))));
}

// fold hides what is beyond foldOver lines until it is asked for.
function fold(el) {
  const all = [...el.children];
  if (all.length <= foldOver + 5) return el;
  for (const c of all.slice(foldOver)) c.hidden = true;
  const more = h("button", { type: "button", class: "more", onclick: () => {
    for (const c of all) c.hidden = false;
    more.remove();
  } }, `Show all ${all.length} lines`);
  return h("div", null, el, more);
}

function problems(list) {
  const placed = list.some((p) => p.line || p.file);
  return h("div", { class: placed ? "problems" : "problems placeless", role: "table", "aria-label": "Mistakes" }, list.map((p) => h("div", { role: "row", class: "problem" },
    placed && h("span", { role: "cell", class: "place" }, p.line ? `${p.line}:${p.col || 1}` : p.file || "–"),
    h("span", { role: "cell" }, p.server && h("b", null, p.server, ": "), spans(p.text),
      p.hint && h("span", { class: "note" }, " ", spans(p.hint)), p.excerpt && excerpt(p)))));
}

// excerpt is the line without its indentation, and a caret under the place.
function excerpt(p) {
  const line = p.excerpt.trimStart();
  const at = (p.col || 1) - 1 - (p.excerpt.length - line.length);
  return h("code", { class: "excerpt", tabindex: "0" }, line, at >= 0 && at <= line.length && p.col && h("span", { class: "caret", "aria-hidden": "true" }, `\n${" ".repeat(at)}^`));
}

// table takes a row's name from Head, or from its first cell; a row with only Head is the title of those below it.
function table(t) {
  const cells = (r) => (r.head ? [r.head, ...r.cells] : r.cells);
  const wide = Math.max(t.columns?.length ?? 0, ...t.rows.map((r) => (r.cells?.length ? cells(r).length : 1)));
  const head = t.columns?.length && h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
    Array.from({ length: wide }, (_, i) => h("th", { role: "columnheader", scope: "col" }, t.columns[i] ?? ""))));
  const body = h("tbody", { role: "rowgroup" }, t.rows.map((r) => {
    if (!r.cells?.length) return h("tr", { role: "row", class: "group" }, h("th", { role: "rowheader", colspan: String(wide) }, spans(r.head)));
    const [first, ...rest] = cells(r);
    return h("tr", { role: "row" }, h("th", { role: "rowheader", scope: "row" }, r.state && mark(r.state), spans(first)),
      rest.map((c) => h("td", { role: "cell", class: c.length <= 16 ? "short" : undefined }, spans(c))));
  }));
  return h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", { role: "table" }, head, body));
}

function fileLine(f, on) {
  const said = h("span", { class: "note", role: "status" });
  const row = h("div", { class: "file" }, h("span", { class: "file-name" }, f.name), h("span", { class: "note" }, bytes(f.size)), h("button", {
    type: "button", onclick: async () => { said.textContent = await on.save(f); },
  }, `Download`, h("span", { class: "vh" }, ` ${f.name}`)), said);
  if (!/^image\/(png|jpeg|gif|webp)$/.test(f.mime) || f.size > 2 << 20) return row;
  const img = h("img", { class: "preview", alt: `${f.name}, sent by a tool` });
  on.preview(f).then((url) => { if (url) img.src = url; else img.remove(); });
  return h("div", null, row, img);
}

// tick rewrites the countdowns, and closes the cards whose time is over.
export function tick(root) {
  for (const el of root.querySelectorAll("[data-expires]")) {
    const left = (Date.parse(el.dataset.expires) - Date.now()) / 1000;
    const text = left > 5400 ? `expires in ${Math.round(left / 3600)} h` : left > 90 ? `expires in ${Math.round(left / 60)} min` : left > 0 ? `expires in ${Math.ceil(left)} s` : "expired";
    if (el.textContent !== text) el.textContent = text;
    if (left > 0) continue;
    delete el.dataset.expires;
    const card = el.closest(".reply");
    for (const c of card.querySelectorAll(".choices button, .form :is(input, select, textarea, button)")) c.disabled = true;
    card.append(h("p", { class: "settled" }, "This card has expired: nothing was done with it. Ask again for a new one."));
  }
}
