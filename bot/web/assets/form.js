// A reply's form: labels, hints and checks that say in words what is missing.
import { h, spans, unique } from "./dom.js";

export function drawForm(reply, on, choices) {
  const fields = reply.form.fields.map((f) => draw(f, reply.bad && on.typed?.[f.name]));
  const submit = h("button", { type: "submit", class: "primary" }, reply.form.submit || "Send");
  choices.prepend(submit);
  const form = h("form", { class: "form", novalidate: true, autocomplete: "off", onsubmit: async (e) => {
    e.preventDefault();
    const wrong = fields.filter((f) => !f.check());
    if (wrong.length) {
      wrong[0].input.focus();
      return;
    }
    const values = {};
    for (const f of fields) {
      const v = f.value();
      if (v !== "") values[f.name] = v;
    }
    for (const b of form.querySelectorAll("button")) b.disabled = true;
    const done = await on.act("", values);
    for (const f of fields) if (f.secret) f.input.value = "";
    if (!done) for (const b of form.querySelectorAll("button")) b.disabled = false;
  } }, fields.map((f) => f.el), choices);
  return form;
}

// draw makes one field. typed is what stood in it when the form was refused; a secret is asked for anew.
function draw(f, typed) {
  const id = unique("field");
  const about = { id, name: f.name, "aria-describedby": `${id}-hint ${id}-wrong`, "aria-required": f.required ? "true" : undefined };
  const input = make(f, about);
  if (f.default && f.kind !== "boolean") input.value = f.default;
  if (typed && f.kind === "boolean") input.checked = typed === "true";
  else if (typed && f.kind !== "secret") input.value = typed;
  const wrong = h("p", { class: "wrong", id: `${id}-wrong` });
  const label = h("label", { for: id }, spans(f.label || f.name), !f.required && f.kind !== "boolean" && h("span", { class: "note" }, " optional"));
  const hint = h("p", { class: "note", id: `${id}-hint` }, f.hint ? spans(f.hint) : f.kind === "secret" ? "kept in your vault, shown to nobody" : "");
  const value = () => f.kind === "boolean" ? (input.checked ? "true" : f.required || f.default === "true" ? "false" : "")
    : f.kind === "secret" || f.kind === "multiline" ? input.value : input.value.trim();
  const check = () => {
    const why = mistake(f, value());
    wrong.replaceChildren(...why ? [h("span", { "aria-hidden": "true" }, "✕ "), why] : []);
    if (why) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    return !why;
  };
  input.addEventListener("input", () => { if (input.hasAttribute("aria-invalid")) check(); });
  const el = f.kind === "boolean" ? h("div", { class: "field tick" }, h("div", null, input, label), hint, wrong)
    : h("div", { class: "field" }, label, input, hint, wrong);
  return { name: f.name, secret: f.kind === "secret", el, input, value, check };
}

function make(f, about) {
  switch (f.kind) {
    case "multiline": return h("textarea", { ...about, rows: "3" });
    case "json": return h("textarea", { ...about, rows: "3", class: "mono", spellcheck: "false" });
    case "secret": return h("input", { ...about, type: "password", autocomplete: "off", spellcheck: "false" });
    case "boolean": return h("input", { ...about, type: "checkbox", checked: f.default === "true" });
    case "number": return h("input", { ...about, type: "text", inputmode: "decimal" });
    case "integer": return h("input", { ...about, type: "text", inputmode: "numeric" });
    case "choice": return h("select", about, (!f.required || !f.default) && h("option", { value: "" }, f.required ? "Choose …" : "–"),
      (f.options ?? []).map((o) => h("option", { value: o }, o)));
  }
  return h("input", { ...about, type: "text", spellcheck: "false" });
}

function mistake(f, v) {
  if (v === "") return f.required ? "a value is needed" : "";
  if (f.kind === "number" && !Number.isFinite(Number(v))) return "this must be a number, such as 2.5";
  if (f.kind === "integer" && !/^-?\d+$/.test(v)) return "this must be a whole number, such as 42";
  if (f.kind === "json") {
    try { JSON.parse(v); } catch { return "this is not valid JSON"; }
  }
  return "";
}
