// A form from a JSON Schema: a field for each property, groups for objects, rows for arrays, or the whole as JSON.
import { h, unique } from "./dom.js";

const deepest = 6, most = 400; // levels and fields that are drawn by themselves; what lies beyond is typed as JSON

// Each part of a form is {el, json, check, fill, say, focus}: json gives JSON text, "" for nothing; check tells mistakes at their
// fields and gives whether there are none; say(path, why) puts the server side's words to the field at that path, or gives false.

// argumentsOf gives {el, toggle, read, blame}: read returns JSON text, or null when a field is wrong, which then says why.
export function argumentsOf(schema) {
  const root = schema ?? {}, at = fresh({ root, depth: 0 }), top = resolve(root, root), variants = top.oneOf ?? top.anyOf;
  const fields = top.properties || !Array.isArray(variants) ? groupOf(top, at) : eitherOf({ label: "Arguments", required: true }, variants.map((v) => resolve(v, root)), at);
  const whole = leafOf({ kind: "json", label: "Arguments, as JSON", required: true, example: "{}" });
  const el = h("div", { class: "form" });
  const open = ["$ref", "additionalProperties", "patternProperties", "not", "if"].some((k) => top[k]);
  let raw = fields.empty && open;
  const toggle = h("button", { type: "button", class: "small", hidden: fields.empty, "aria-pressed": "false", onclick: () => {
    raw = !raw;
    if (raw) whole.fill(undefined, fields.json());
    else fields.fill(parsed(whole.json()));
    toggle.setAttribute("aria-pressed", String(raw));
    show();
  } }, "As JSON");
  const now = () => raw ? whole : fields;
  const show = () => el.replaceChildren(now().el);
  if (raw) whole.fill({});
  show();
  return {
    el, toggle,
    read() {
      if (now().check()) return now().json();
      el.querySelector("[aria-invalid]")?.focus();
      return null;
    },
    // blame gives the problems that belong to no field.
    blame: (problems) => problems.filter((p) => raw || !fields.say(stepsOf(p.pointer ?? ""), p.hint ? `${p.text}; ${p.hint}` : p.text)),
  };
}

const fresh = (at) => ({ ...at, budget: { left: most } });

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

const stepsOf = (pointer) => pointer.split("/").slice(1).map((s) => s.replaceAll("~1", "/").replaceAll("~0", "~"));

// partOf draws one value.
function partOf(label, def, required, at) {
  const s = resolve(def, at.root), about = { label, required, hint: hintOf(s), preset: s.default };
  const here = { ...at, depth: at.depth + 1 };
  const drawn = at.depth < deepest && --at.budget.left > 0;
  const options = optionsOf(s);
  if (options) return leafOf({ ...about, kind: "choice", options });
  const types = [s.type].flat().filter((t) => t && t !== "null");
  const variants = s.oneOf ?? s.anyOf;
  if (drawn && !s.properties && Array.isArray(variants)) {
    const real = variants.map((v) => resolve(v, at.root)).filter((v) => v.type !== "null");
    if (real.length === 1) return partOf(label, { description: s.description, default: s.default, ...real[0] }, required, here);
    if (real.length > 1) return eitherOf(about, real, here);
  }
  if (types.length === 1 && ["string", "number", "integer", "boolean"].includes(types[0])) return leafOf({ ...about, kind: types[0] });
  if (drawn && types[0] === "array" && types.length === 1) {
    const picks = optionsOf(resolve(s.items ?? {}, at.root));
    return picks && s.uniqueItems ? picksOf(about, picks) : rowsOf(about, s, here);
  }
  if (drawn && types.length <= 1 && s.properties && Object.keys(s.properties).length) return boxOf(about, s, here);
  return leafOf({ ...about, kind: "json", example: types[0] === "array" ? "[]" : types[0] === "object" ? "{}" : undefined });
}

// resolve follows references inside of the schema, and puts the parts of an allOf together, two levels of them at most.
function resolve(def, root, levels = 2) {
  for (let hop = 0; hop < 8 && typeof def?.$ref === "string"; hop++) {
    const { $ref, ...rest } = def;
    let to = $ref.startsWith("#") ? root : undefined;
    for (const step of stepsOf($ref.slice(1))) to = to?.[step];
    if (typeof to !== "object" || to === null) break;
    def = { ...to, ...rest };
  }
  if (typeof def !== "object" || def === null) return {};
  const { allOf, ...own } = def;
  if (!Array.isArray(allOf) || !levels) return own;
  return allOf.slice(0, 20).map((part) => resolve(part, root, levels - 1)).reduce((all, part) => ({
    ...part, ...all, properties: { ...part.properties, ...all.properties }, required: [...all.required ?? [], ...part.required ?? []],
  }), own);
}

// optionsOf gives [{value, label}] of an enumeration, in any of its ways of writing.
function optionsOf(s) {
  const shown = (v) => typeof v === "string" ? v : JSON.stringify(v);
  if (Array.isArray(s.enum)) return s.enum.map((value, i) => ({ value, label: s.enumNames?.[i] ?? shown(value) }));
  if (s.const !== undefined) return [{ value: s.const, label: shown(s.const) }];
  const list = s.oneOf ?? s.anyOf;
  if (!Array.isArray(list) || !list.length || !list.every((o) => o && o.const !== undefined)) return undefined;
  return list.map((o) => ({ value: o.const, label: o.title ? `${o.title} (${shown(o.const)})` : shown(o.const) }));
}

const examples = { email: "ann@example.com", uri: "https://example.com/", date: "2026-11-21", "date-time": "2026-11-21T09:30:00Z", time: "09:30:00Z" };

function between(least, greatest, unit = "") {
  if (least === undefined && greatest === undefined) return "";
  if (greatest === undefined) return `at least ${least}${unit}`;
  return least === undefined ? `at most ${greatest}${unit}` : `${least} to ${greatest}${unit}`;
}

function hintOf(s) {
  return [
    s.description, between(s.minimum, s.maximum), s.exclusiveMinimum !== undefined && `above ${s.exclusiveMinimum}`, s.exclusiveMaximum !== undefined && `below ${s.exclusiveMaximum}`,
    s.multipleOf !== undefined && `a multiple of ${s.multipleOf}`, between(s.minLength, s.maxLength, " characters"), between(s.minItems, s.maxItems, " items"),
    s.format && (examples[s.format] ? `such as ${examples[s.format]}` : s.format), s.pattern && `matches ${s.pattern}`,
  ].filter(Boolean).join(" · ");
}

const optional = (f) => !f.required && h("span", { class: "note" }, " optional");

// leafOf is one field.
function leafOf(f) {
  const id = unique("field");
  const about = { id, "aria-describedby": `${id}-hint ${id}-wrong`, "aria-required": f.required ? "true" : undefined, spellcheck: "false" };
  const options = f.kind === "boolean" ? [true, false].map((value) => ({ value, label: String(value) })) : f.options;
  const input = options ? h("select", about, h("option", { value: "" }, f.required ? "Choose …" : "–"), options.map((o, i) => h("option", { value: String(i) }, o.label)))
    : f.kind === "string" ? h("textarea", { ...about, rows: "1" })
      : f.kind === "json" ? h("textarea", { ...about, rows: "2", class: "mono", placeholder: f.example ?? "JSON" })
        : h("input", { ...about, type: "text", inputmode: f.kind === "integer" ? "numeric" : "decimal" });
  const wrong = h("p", { class: "wrong", id: `${id}-wrong` });
  const tell = (why) => {
    wrong.replaceChildren(...why ? [h("span", { "aria-hidden": "true" }, "✕ "), why] : []);
    if (why) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    return !why;
  };
  const part = {
    el: h("div", { class: "field" }, h("label", { for: id }, f.label, optional(f)), input, h("p", { class: "note", id: `${id}-hint` }, f.hint), wrong),
    json() {
      const v = input.value;
      if (v === "") return "";
      if (options) return JSON.stringify(options[Number(v)].value);
      return f.kind === "string" ? JSON.stringify(v) : v.trim();
    },
    check: () => tell(mistake(f, input.value)),
    fill(v, text) {
      if (v === undefined) input.value = text ?? "";
      else if (options) input.value = String(options.findIndex((o) => JSON.stringify(o.value) === JSON.stringify(v)));
      else input.value = f.kind === "string" && typeof v === "string" ? v : JSON.stringify(v);
    },
    say: (path, why) => !tell(why),
    focus: () => input.focus(),
  };
  input.addEventListener("input", () => { if (input.hasAttribute("aria-invalid")) part.check(); });
  if (f.preset !== undefined) part.fill(f.preset);
  return part;
}

function mistake(f, v) {
  if (v.trim() === "") {
    if (!f.required) return "";
    return f.kind === "string" ? "a value is needed; an empty one can be sent As JSON" : "a value is needed";
  }
  if (f.kind === "number" && !/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(v.trim())) return "this must be a number, such as 2.5";
  if (f.kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(v.trim())) return "this must be a whole number, such as 42";
  return f.kind === "json" && parsed(v) === undefined ? "this is not valid JSON" : "";
}

// groupOf is the properties of an object, each with a part of its own.
function groupOf(s, at) {
  const required = new Set(Array.isArray(s.required) ? s.required : []);
  const parts = Object.entries(s.properties ?? {}).map(([name, def]) => [name, partOf(name, def, required.has(name), at)]);
  return {
    el: h("div", { class: "form" }, parts.map(([, p]) => p.el)),
    empty: !parts.length,
    json: () => `{${parts.map(([name, p]) => [name, p.json()]).filter(([, v]) => v !== "").map(([name, v]) => `${JSON.stringify(name)}: ${v}`).join(", ")}}`,
    check: () => parts.filter(([, p]) => !p.check()).length === 0,
    fill(v) {
      if (v && typeof v === "object") for (const [name, p] of parts) p.fill(Object.hasOwn(v, name) ? v[name] : undefined);
    },
    say: ([name, ...rest], why) => parts.find(([n]) => n === name)?.[1].say(rest, why) ?? false,
    focus: () => parts[0]?.[1].focus(),
  };
}

// frameOf is a titled group with a place for words about the whole of it.
function frameOf(f, ...children) {
  const id = unique("group"), wrong = h("p", { class: "wrong", id: `${id}-wrong` });
  const el = h("fieldset", { class: "group", "aria-describedby": `${id}-hint ${id}-wrong` }, h("legend", null, f.label, optional(f)), f.hint && h("p", { class: "note", id: `${id}-hint` }, f.hint), children, wrong);
  return { el, tell: (why) => (wrong.replaceChildren(...why ? [h("span", { "aria-hidden": "true" }, "✕ "), why] : []), !why) };
}

// boxOf is an object in a form; one that is optional is left out until somebody adds it.
function boxOf(f, s, at) {
  let inner;
  const place = h("div");
  const add = h("button", { type: "button", class: "small" }, "Add");
  const { el, tell } = frameOf(f, place, !f.required && h("div", { class: "actions" }, add));
  const set = (on) => {
    inner = on ? groupOf(s, f.required ? at : fresh(at)) : undefined;
    place.replaceChildren(...inner ? [inner.el] : []);
    add.textContent = on ? "Leave out" : "Add";
    tell("");
  };
  add.addEventListener("click", () => {
    set(!inner);
    inner?.focus();
  });
  set(f.required);
  const part = {
    el, check: () => inner?.check() ?? true, json: () => inner?.json() ?? "", focus: () => inner ? inner.focus() : add.focus(),
    fill(v) {
      if (!inner !== (v === undefined)) set(v !== undefined || f.required);
      inner?.fill(v);
    },
    say: (path, why) => path.length && inner?.say(path, why) || !tell(why),
  };
  if (f.preset !== undefined) part.fill(f.preset);
  return part;
}

// rowsOf is a list to which rows are added.
function rowsOf(f, s, at) {
  const rows = [], list = h("div", { class: "rows" });
  const number = () => rows.forEach((r, i) => r.drop.setAttribute("aria-label", `Remove ${f.label} ${i + 1}`));
  const grow = (within = fresh(at)) => {
    const part = partOf("", s.items ?? {}, true, within), drop = h("button", { type: "button", class: "small" }, "Remove");
    const row = { part, drop, el: h("div", { class: "row" }, part.el, drop) };
    part.el.querySelector("label, legend")?.replaceChildren(h("span", { class: "vh" }, `${f.label}, item`));
    drop.addEventListener("click", () => {
      rows.splice(rows.indexOf(row), 1);
      row.el.remove();
      number();
      add.focus();
    });
    rows.push(row);
    list.append(row.el);
    number();
    return part;
  };
  const add = h("button", { type: "button", class: "small", "aria-label": `Add to ${f.label}`, onclick: () => grow().focus() }, "Add");
  const { el, tell } = frameOf(f, list, h("div", { class: "actions" }, add));
  if (f.required) for (let i = 0; i < Math.min(s.minItems ?? 0, 10); i++) grow(at);
  const part = {
    el, focus: () => add.focus(),
    json: () => rows.length || f.required ? `[${rows.map((r) => r.part.json()).join(", ")}]` : "",
    check: () => rows.filter((r) => !r.part.check()).length === 0 && tell(""),
    fill(v) {
      rows.length = 0;
      list.replaceChildren();
      if (Array.isArray(v)) for (const item of v.slice(0, most)) grow().fill(item);
    },
    say: ([i, ...rest], why) => rows[i]?.part.say(rest, why) || !tell(why),
  };
  if (f.preset !== undefined) part.fill(f.preset);
  return part;
}

// picksOf is a list of which each choice can be in it once.
function picksOf(f, options) {
  const boxes = options.map(() => h("input", { type: "checkbox" }));
  const { el, tell } = frameOf(f, h("div", { class: "picks" }, options.map((o, i) => h("label", null, boxes[i], o.label))));
  const part = {
    el, focus: () => boxes[0]?.focus(), check: () => tell(""), say: (path, why) => !tell(why),
    json: () => boxes.some((b) => b.checked) || f.required ? JSON.stringify(options.filter((_, i) => boxes[i].checked).map((o) => o.value)) : "",
    fill: (v) => boxes.forEach((b, i) => { b.checked = Array.isArray(v) && v.some((x) => JSON.stringify(x) === JSON.stringify(options[i].value)); }),
  };
  if (f.preset !== undefined) part.fill(f.preset);
  return part;
}

// eitherOf is a value that has one of several shapes.
function eitherOf(f, variants, at) {
  let inner;
  const name = (v, i) => v.title || [v.type].flat().filter(Boolean).join(" or ") || `shape ${i + 1}`;
  const choice = h("select", { "aria-label": `shape of ${f.label}` }, h("option", { value: "" }, f.required ? "Choose …" : "–"), variants.map((v, i) => h("option", { value: String(i) }, name(v, i))));
  const place = h("div");
  const { el, tell } = frameOf(f, choice, place);
  const turn = (to) => {
    choice.value = to;
    inner = to === "" ? undefined : partOf(name(variants[to], Number(to)), variants[to], true, fresh(at));
    place.replaceChildren(...inner ? [inner.el] : []);
    tell("");
  };
  choice.addEventListener("change", () => turn(choice.value));
  const part = {
    el, focus: () => choice.focus(), json: () => inner?.json() ?? "",
    check: () => inner ? inner.check() : tell(f.required ? "a value is needed" : ""),
    fill(v) {
      const fits = variants.findIndex((s) => fitsIn(v, s));
      if (v === undefined) return turn("");
      turn(String(Math.max(0, fits)));
      inner.fill(v);
    },
    say: (path, why) => path.length && inner?.say(path, why) || !tell(why),
  };
  if (f.preset !== undefined) part.fill(f.preset);
  return part;
}

// fitsIn is a guess at whether a value has a shape: by its type, its required properties, and those that are fixed.
function fitsIn(v, s) {
  const type = Array.isArray(v) ? "array" : Number.isInteger(v) ? "integer" : typeof v;
  if (s.type && ![s.type].flat().some((t) => t === type || t === "number" && type === "integer")) return false;
  if (type !== "object" || !v) return true;
  return (s.required ?? []).every((k) => Object.hasOwn(v, k)) && Object.entries(s.properties ?? {}).every(([k, d]) => d?.const === undefined || v[k] === d.const);
}
