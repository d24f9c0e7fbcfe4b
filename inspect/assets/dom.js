// Elements are made here and nowhere else, always with text as text: there is no innerHTML on this page.

export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(props ?? {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (k === "class") el.className = v;
    else if (v === true) el.setAttribute(k, "");
    else el.setAttribute(k, v);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

export const $ = (id) => document.getElementById(id);

let last = 0;
export const unique = (prefix) => `${prefix}-${++last}`;

export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

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

let saying;
// announce tells a screen reader what changed by itself.
export function announce(text) {
  clearTimeout(saying);
  saying = setTimeout(() => { $("status").textContent = text; }, 100);
}
