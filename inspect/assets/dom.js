// What this page draws beside what all of bobbin's pages do.
import { announce, h } from "./base.js";

export * from "./base.js";

export const took = (ms) => ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

// visible writes characters that cannot be seen, or that turn text around, as escapes: what looks the same is the same.
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
  (c) => `\\u${c.codePointAt(0) > 0xffff ? `{${c.codePointAt(0).toString(16)}}` : c.codePointAt(0).toString(16).padStart(4, "0")}`);

// pretty lays JSON text out without reading it: numbers stay as they were written, and what is cut short stays readable.
export function pretty(text) {
  let out = "", depth = 0, quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      out += c;
      if (c === "\\") out += text[++i] ?? "";
      else if (c === '"') quoted = false;
      continue;
    }
    if (/\s/.test(c)) continue;
    if (c === '"') quoted = true;
    if (c === "{" || c === "[") {
      const close = /^\s*[}\]]/.exec(text.slice(i + 1, i + 40));
      if (close) {
        out += c + text[i + close[0].length];
        i += close[0].length;
        continue;
      }
      out += `${c}\n${"  ".repeat(++depth)}`;
    } else if (c === "}" || c === "]") {
      depth = Math.max(0, depth - 1);
      out += `\n${"  ".repeat(depth)}${c}`;
    } else if (c === ",") out += `,\n${"  ".repeat(depth)}`;
    else if (c === ":") out += ": ";
    else out += c;
  }
  return out;
}

// copier is a button that puts text on the clipboard and says what became of it.
export function copier(text, label) {
  const button = h("button", { type: "button", class: "small copy", onclick: async () => {
    let said = "Copied";
    try { await navigator.clipboard.writeText(text()); } catch { said = "The browser forbids it"; }
    button.textContent = said;
    announce(said);
    setTimeout(() => { button.textContent = label; }, 2000);
  } }, label);
  return button;
}

// save lets the browser keep something as a file, under the last part of a name.
export function save(data, name) {
  const url = URL.createObjectURL(new Blob([data]));
  h("a", { href: url, download: name.split("/").at(-1).replace(/[^\w.-]/g, "_") || "file" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
