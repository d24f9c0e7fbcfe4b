// Tools, resources and prompts: what can be opened, tried, and what came of it.
import { bytes, copier, h, pretty, save, took, unique, visible } from "./dom.js";
import { argumentsOf } from "./form.js";
import { use } from "./api.js";

// thing draws one entry that opens in place. body(el) fills it when it is opened first.
function thing(name, text, badges, body) {
  const more = h("div", { class: "more", id: unique("more"), hidden: true });
  const button = h("button", { type: "button", class: "thing", "aria-expanded": "false", "aria-controls": more.id, onclick: () => {
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
    if (!more.hidden && !more.firstChild) body(more);
  } }, h("span", { class: "thing-name" }, visible(name), badges.filter(Boolean).map((b) => h("span", { class: "badge" }, b))), text && h("span", { class: "thing-text" }, visible(text)));
  return h("li", null, button, more);
}

// A schema that says nothing is none: bobbin puts {"type": "object"} where a server gave no output schema.
const schema = (title, value) => value && Object.keys(value).some((k) => k !== "type") && h("details", { class: "schema" }, h("summary", null, title), h("pre", null, visible(JSON.stringify(value, null, 2))));

// trial is a form with a button, and below it what came of the last press.
function trial(label, form, send, show) {
  const out = h("div", { role: "region", "aria-label": "Result", "aria-live": "polite" });
  const go = h("button", { type: "submit", class: "primary" }, label);
  let running;
  const stop = h("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Cancel");
  const el = h("form", { novalidate: true, autocomplete: "off", onsubmit: async (e) => {
    e.preventDefault();
    const args = form ? form.read() : undefined;
    if (args === null || running) return;
    running = new AbortController();
    go.disabled = true;
    stop.hidden = false;
    const clock = h("span", { "aria-hidden": "true" }), began = Date.now();
    const ticking = setInterval(() => { clock.textContent = ` ${Math.round((Date.now() - began) / 1000)} s`; }, 1000);
    out.replaceChildren(h("p", { class: "muted waiting" }, "waiting for the answer …", clock));
    const said = await send(args, running.signal);
    clearInterval(ticking);
    running = undefined;
    go.disabled = false;
    stop.hidden = true;
    out.replaceChildren(said.error ? refusal(said.error, form) : shown(said, show));
  } }, form?.el, h("div", { class: "actions" }, go, stop, form?.toggle));
  el.className = "form";
  el.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) el.requestSubmit(); });
  return [el, out];
}

const outcome = (code) => code === "failed" ? "failed" : code === "unknown" || code === "internal" ? "whether it ran is unknown" : "did not run";

function refusal(e, form) {
  const left = e.problems && form ? form.blame(e.problems) : e.problems ?? [];
  return h("div", { class: "result failed" },
    h("div", { class: "result-head" }, h("span", { class: "bad" }, outcome(e.code)), e.ref && h("span", null, `reference ${e.ref}`)),
    h("p", null, e.text || "something went wrong", e.hint && h("span", { class: "muted" }, ` · ${e.hint.replaceAll("`", "")}`)),
    left.length > 0 && h("ul", null, left.map((p) => h("li", null, p.pointer && h("code", null, p.pointer), ` ${p.text}`, p.hint && ` (${p.hint})`))));
}

function shown(said, show) {
  return h("div", { class: said.isError ? "result failed" : "result" },
    h("div", { class: "result-head" }, said.isError && h("span", { class: "bad" }, "the tool says that it failed"),
      h("span", null, took(said.ms)), h("span", null, bytes(said.size)), said.runsAs && h("span", null, `as ${said.runsAs}`), h("span", null, `receipt ${said.receipt}`), copier(() => JSON.stringify(said.result, null, 2), "Copy JSON")),
    said.spilled && h("p", { class: "muted" }, `cut short; the whole has ${bytes(said.size)}`),
    show(said.result));
}

const text = (t) => h("pre", null, visible(t));
const json = (v) => text(JSON.stringify(v, null, 2));

const fileOf = (data) => bytes(Math.floor(data.replace(/=+$/, "").length * 3 / 4));

// blob shows what is not text as far as a browser may, with a button that saves it.
function blob(data, kind, name) {
  const known = /^(image\/(png|jpeg|gif|webp)|audio\/[\w.+-]+)$/.exec(kind ?? "")?.[0];
  const src = `data:${known};base64,${data}`, ending = /^\w+\/(?:x-)?(\w+)$/.exec(kind ?? "")?.[1] ?? "bin";
  const keep = (e) => {
    try { save(Uint8Array.from(atob(data), (c) => c.codePointAt(0)), /\.\w+$/.test(name) ? name : `${name}.${ending}`); } catch { e.currentTarget.textContent = "It is not base64"; }
  };
  return [known?.startsWith("image/") && h("img", { alt: `image, ${kind}`, src }), known?.startsWith("audio/") && h("audio", { controls: true, src, "aria-label": `sound, ${kind}` }),
    h("div", { class: "file" }, h("span", { class: "muted" }, `${visible(kind || "binary data")} · ${fileOf(data)}`),
      h("button", { type: "button", class: "small", onclick: keep }, "Save"))].filter(Boolean);
}

function contents(c) {
  const named = h("p", { class: "muted" }, visible([c.uri, c.mimeType].filter(Boolean).join(" · ")));
  if (typeof c.text === "string") return [named, text(/json/.test(c.mimeType ?? "") ? pretty(c.text) : c.text)];
  return typeof c.blob === "string" ? [h("p", { class: "muted" }, visible(c.uri ?? "")), blob(c.blob, c.mimeType, c.uri ?? "file")] : json(c);
}

const block = (server) => (b) => {
  if (b.type === "text" && typeof b.text === "string") return text(b.text);
  if (["image", "audio"].includes(b.type) && typeof b.data === "string") return blob(b.data, b.mimeType, b.type);
  if (b.type === "resource" && b.resource) return contents(b.resource);
  if (b.type === "resource_link" && typeof b.uri === "string") return h("ul", { class: "things" }, resourceItem({ ...b, server, mime: b.mimeType }));
  return json(b);
};

const answerOfTool = (server) => (r) => {
  const blocks = Array.isArray(r.content) ? r.content.map(block(server)) : [json(r)];
  if (r.structuredContent !== undefined) blocks.push(h("p", { class: "muted" }, "structured"), json(r.structuredContent));
  return blocks.length ? blocks : h("p", { class: "muted" }, "an empty answer");
};

const answerOfResource = (r) => r.contents?.length ? r.contents.map(contents) : h("p", { class: "muted" }, "an empty answer");
const answerOfPrompt = (server) => (r) => (r.messages ?? []).map((m) => [h("p", { class: "muted" }, visible(m.role ?? "")), [m.content ?? {}].flat().map(block(server))]);

export function toolItem(t) {
  return thing(t.name, t.description, [t.writes && "writes", t.risk], (more) => {
    const form = argumentsOf(t.input);
    more.append(...trial("Call", form, (args, signal) => use("call", { server: t.server, tool: t.name }, args, signal), answerOfTool(t.server)));
    more.append(...[schema("Input schema", t.input), schema("Output schema", t.output)].filter(Boolean));
  });
}

export function resourceItem(r) {
  return thing(r.template ? r.uri : r.name || r.uri, [r.template ? r.name : r.uri !== (r.name || r.uri) && r.uri, r.description].filter(Boolean).join("\n"), [r.template && "template", r.mime], (more) => {
    if (!r.template) return more.append(...trial("Read", null, (_, signal) => use("read", { server: r.server, uri: r.uri }, undefined, signal), answerOfResource));
    const form = argumentsOf({ properties: { uri: { type: "string", description: "the address, with its {parts} filled in", default: r.uri } }, required: ["uri"] });
    form.toggle.hidden = true;
    more.append(...trial("Read", form, (args, signal) => use("read", { server: r.server, uri: JSON.parse(args).uri }, undefined, signal), answerOfResource));
  });
}

export function promptItem(p) {
  return thing(p.name, p.description, [], (more) => {
    const form = argumentsOf({
      properties: Object.fromEntries(p.arguments.map((a) => [a.name, { type: "string", description: a.description }])), required: p.arguments.filter((a) => a.required).map((a) => a.name),
    });
    more.append(...trial("Fill in", form, (args, signal) => use("prompt", { server: p.server, name: p.name }, args, signal), answerOfPrompt(p.server)));
  });
}
