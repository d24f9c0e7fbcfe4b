// What this page draws beside what all of bobbin's pages do.
import { h } from "./base.js";

export * from "./base.js";

// spans turns `code` into elements. A command among them can be pressed: it is put into the field, not sent.
export function spans(text) {
  return text.split(/(`[^`\n]+`)/).map((part) => {
    if (part.length < 3 || part[0] !== "`" || part.at(-1) !== "`") return part;
    const code = part.slice(1, -1);
    if (!/^\/(mcp|chat) /.test(code)) return h("code", null, code);
    return h("button", {
      type: "button", class: "command", title: "Put this into the message field",
      onclick: (e) => e.currentTarget.dispatchEvent(new CustomEvent("command", { bubbles: true, detail: code })),
    }, code);
  });
}
