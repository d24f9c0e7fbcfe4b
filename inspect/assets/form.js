// A form from a JSON Schema: one field for each property, or the whole as JSON.
import { h, unique } from "./dom.js";

// argumentsOf gives {el, read, typed}: read returns JSON text, or null when a field is wrong, which then says why.
export function argumentsOf(schema, typed) {
  const fields = fieldsOf(schema ?? {});
  const whole = draw({ kind: "json", name: "arguments", label: "Arguments, as JSON", required: true });
  const el = h("div", { class: "form" });
  let raw = false;
  const text = () => `{${fields.map((f) => [f.name, f.json()]).filter(([, v]) => v !== "").map(([k, v]) => `${JSON.stringify(k)}: ${v}`).join(", ")}}`;
  const toggle = h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => {
    raw = !raw;
    if (raw) whole.input.value = text();
    else refill(fields, whole.input.value);
    toggle.setAttribute("aria-pressed", String(raw));
    show();
  } }, "As JSON");
  const show = () => el.replaceChildren(...raw ? [whole.el] : fields.map((f) => f.el));
  if (!fields.length && Object.keys(schema ?? {}).some((k) => ["anyOf", "oneOf", "allOf", "$ref", "additionalProperties", "patternProperties"].includes(k) && schema[k] !== false)) {
    raw = true;
    whole.input.value = "{}";
    toggle.hidden = true;
  }
  if (!fields.length) toggle.hidden = true;
  if (typed) {
    whole.input.value = typed;
    refill(fields, typed);
  }
  show();
  return {
    el, toggle,
    typed: () => raw ? whole.input.value : text(),
    read() {
      const bad = (raw ? [whole] : fields).filter((f) => !f.check());
      if (bad.length) {
        bad[0].input.focus();
        return null;
      }
      return raw ? whole.input.value.trim() : text();
    },
    // blame puts the server side's problems to their fields, and gives those that belong to none.
    blame(problems) {
      return problems.filter((p) => {
        const f = !raw && fields.find((f) => (p.pointer ?? "") === `/${f.name}` || (p.pointer ?? "").startsWith(`/${f.name}/`));
        if (f) f.say(p.hint ? `${p.text}; ${p.hint}` : p.text);
        return !f;
      });
    },
  };
}

function refill(fields, text) {
  let given;
  try { given = JSON.parse(text); } catch { return; }
  for (const f of fields) if (given && Object.hasOwn(given, f.name)) f.fill(given[f.name]);
}

function fieldsOf(schema) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries(schema.properties ?? {}).map(([name, def]) => {
    const s = resolve(def, schema);
    return draw({ name, label: name, hint: hintOf(s), required: required.has(name), kind: kindOf(s), options: s.enum ?? (s.const !== undefined ? [s.const] : undefined), preset: s.default });
  });
}

// resolve follows one reference inside of the schema.
function resolve(def, root) {
  if (typeof def !== "object" || def === null) return {};
  if (typeof def.$ref === "string" && def.$ref.startsWith("#/")) {
    let at = root;
    for (const step of def.$ref.slice(2).split("/")) at = at?.[step.replaceAll("~1", "/").replaceAll("~0", "~")];
    if (at && typeof at === "object") return { ...at, ...def };
  }
  return def;
}

function hintOf(s) {
  const parts = [s.description];
  if (s.minimum !== undefined || s.maximum !== undefined) parts.push(`${s.minimum ?? "…"} to ${s.maximum ?? "…"}`);
  if (s.format) parts.push(s.format);
  if (s.pattern) parts.push(`matches ${s.pattern}`);
  return parts.filter(Boolean).join(" · ");
}

function kindOf(s) {
  if (Array.isArray(s.enum) || s.const !== undefined) return "choice";
  const types = [s.type].flat().filter((t) => t !== "null");
  return types.length === 1 && ["string", "number", "integer", "boolean"].includes(types[0]) ? types[0] : "json";
}

function draw(f) {
  const id = unique("field");
  const about = { id, "aria-describedby": `${id}-hint ${id}-wrong`, "aria-required": f.required ? "true" : undefined, spellcheck: "false" };
  const options = f.kind === "boolean" ? [true, false] : f.options;
  const input = f.kind === "choice" || f.kind === "boolean"
    ? h("select", about, h("option", { value: "" }, f.required ? "Choose …" : "–"), options.map((o, i) => h("option", { value: String(i) }, typeof o === "string" ? o : JSON.stringify(o))))
    : f.kind === "string" ? h("textarea", { ...about, rows: "1" })
      : f.kind === "json" ? h("textarea", { ...about, rows: "2", class: "mono", placeholder: f.name === "arguments" ? "{}" : "JSON" })
        : h("input", { ...about, type: "text", inputmode: f.kind === "integer" ? "numeric" : "decimal" });
  const fill = (v) => {
    if (options) input.value = String(options.findIndex((o) => JSON.stringify(o) === JSON.stringify(v)));
    else input.value = f.kind === "string" && typeof v === "string" ? v : JSON.stringify(v);
  };
  if (f.preset !== undefined) fill(f.preset);
  const wrong = h("p", { class: "wrong", id: `${id}-wrong` });
  const say = (why) => {
    wrong.replaceChildren(...why ? [h("span", { "aria-hidden": "true" }, "✕ "), why] : []);
    if (why) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  const json = () => {
    const v = input.value;
    if (v === "" && !(f.kind === "string" && f.required)) return "";
    if (options) return JSON.stringify(options[Number(v)]);
    return f.kind === "string" ? JSON.stringify(v) : v.trim();
  };
  const check = () => {
    const why = mistake(f, input.value);
    say(why);
    return !why;
  };
  input.addEventListener("input", () => { if (input.hasAttribute("aria-invalid")) check(); });
  const el = h("div", { class: "field" }, h("label", { for: id }, f.label, !f.required && h("span", { class: "note" }, " optional")), input,
    h("p", { class: "note", id: `${id}-hint` }, f.hint), wrong);
  return { name: f.name, el, input, json, check, fill, say };
}

function mistake(f, v) {
  if (v.trim() === "") return f.required && f.kind !== "string" ? "a value is needed" : "";
  if (f.kind === "number" && !/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(v.trim())) return "this must be a number, such as 2.5";
  if (f.kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(v.trim())) return "this must be a whole number, such as 42";
  if (f.kind === "json") {
    try { JSON.parse(v); } catch { return "this is not valid JSON"; }
  }
  return "";
}
