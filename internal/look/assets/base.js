// Elements are made here and nowhere else, always with text as text: there is no innerHTML on these pages.

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

// about rounds an estimate to two digits, as the bot does.
export function about(n) {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(n || 1)) - 1);
  return `about ${(Math.round(n / step) * step).toLocaleString("en")}`;
}

export function bytes(n) {
  if (n < 1024) return plural(n, "byte");
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

let saying;
// announce tells a screen reader what changed by itself.
export function announce(text) {
  clearTimeout(saying);
  saying = setTimeout(() => { $("status").textContent = text; }, 100);
}
