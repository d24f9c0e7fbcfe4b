// The field at the foot: lines, pasted configs, files, and the list of commands that continue a line.
import { $, announce, bytes, h } from "./dom.js";
import { complete } from "./net.js";

const example = `{
  "mcpServers": {
    "everything": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything"]
    }
  }
}`;

const say = $("say"), lines = $("lines"), hint = $("say-hint");
const plainHint = hint.textContent;
let picked = -1, asked = 0;
let files = []; // that go with the next message
const maxFiles = 10, maxFile = 5 << 20;

export function setupComposer({ send, upload }) {
  $("composer").addEventListener("submit", (e) => {
    e.preventDefault();
    const text = say.value.trim(), along = files;
    if (!text && !along.length) return say.focus();
    files = [];
    chips();
    put("");
    send(text, along);
  });
  const take = (list) => [...list].forEach((f) => (isConfig(f) && !say.value.trim() && !files.length ? upload(f) : add(f)));
  say.addEventListener("keydown", (e) => {
    if (e.isComposing || keys(e)) return;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      $("composer").requestSubmit();
    }
  });
  say.addEventListener("input", changed);
  say.addEventListener("paste", (e) => {
    if (!e.clipboardData.files.length) return;
    e.preventDefault();
    take(e.clipboardData.files);
  });
  say.addEventListener("blur", () => setTimeout(close, 150));
  document.addEventListener("command", (e) => offer(e.detail));
  $("example").addEventListener("click", () => { put(example); say.focus(); });
  for (const id of ["attach", "scene-file"]) $(id).addEventListener("click", () => $("file").click());
  $("scene-add").addEventListener("click", () => send("/mcp add"));
  $("file").addEventListener("change", () => {
    take($("file").files);
    $("file").value = "";
  });
  setupDrop(take);
}

// isConfig tells a config to add, which is sent at once, from a file to talk about.
const isConfig = (f) => /\.(jsonc?|toml|ya?ml|mcpb|dxt)$/i.test(f.name);

function add(f) {
  if (f.size > maxFile || files.length >= maxFiles) {
    announce(f.size > maxFile ? `${f.name} is larger than 5 MiB; it is not attached` : `at most ${maxFiles} files go with a message`);
    hint.textContent = f.size > maxFile ? `${f.name} is larger than 5 MiB; it is not attached` : `At most ${maxFiles} files go with a message`;
    $("composer").classList.add("speaks");
    return;
  }
  files.push(f);
  chips();
  say.focus();
}

function chips() {
  $("chips").hidden = !files.length;
  $("chips").replaceChildren(...files.map((f) => h("li", { class: "chip" }, h("span", null, f.name), h("span", { class: "note" }, bytes(f.size)),
    h("button", { type: "button", class: "small", onclick: () => { files = files.filter((o) => o !== f); chips(); say.focus(); } }, "Remove", h("span", { class: "vh" }, ` ${f.name}`)))));
}

// offer takes a command that was pressed in a text: an upload opens the file dialog, what is to be filled in is left open.
function offer(command) {
  if (/^\/mcp upload\b/.test(command)) return $("file").click();
  put(command.replace(/\s*(\{…\}|…)$/, " "));
  say.focus();
}

function put(text) {
  say.value = text;
  changed();
}

function changed() {
  const text = say.value.trim();
  hint.textContent = text.startsWith("{") ? configHint(text) : plainHint;
  $("composer").classList.toggle("speaks", text !== "");
  suggest();
}

function configHint(text) {
  try {
    JSON.parse(text);
    return "Enter shows what this config would change; nothing runs before you confirm";
  } catch {
    return "This is not complete JSON yet; Enter sends it as it is and you see where it is broken";
  }
}

async function suggest() {
  const line = say.value;
  const turn = ++asked;
  if (!line.startsWith("/") || line.includes("\n") || line.length > 200) return close();
  let found = await complete(line);
  if (found.length === 1 && found[0].trimEnd() === line) found = await complete(found[0]); // "/mcp" is whole: on to its verbs
  found = found.filter((l) => l !== line);
  if (turn !== asked) return;
  if (!found.length) return close();
  picked = -1;
  lines.replaceChildren(...found.map((l, i) => h("li", { role: "option", id: `line-${i}`, "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); accept(l); } }, l)));
  lines.hidden = false;
}

function close() {
  asked++;
  picked = -1;
  lines.hidden = true;
  lines.replaceChildren();
  say.removeAttribute("aria-activedescendant");
}

function accept(line) {
  close();
  put(line);
  say.focus();
}

// keys reports whether the key was for the list of commands.
function keys(e) {
  if (lines.hidden) return false;
  const all = [...lines.children];
  switch (e.key) {
    case "ArrowDown": picked = (picked + 1) % all.length; break;
    case "ArrowUp": picked = (picked <= 0 ? all.length : picked) - 1; break;
    case "Escape": close(); return true;
    case "Tab":
      if (e.shiftKey) return false;
      e.preventDefault();
      accept(all[Math.max(picked, 0)].textContent);
      return true;
    case "Enter":
      if (picked < 0 || e.shiftKey) { close(); return false; }
      e.preventDefault();
      accept(all[picked].textContent);
      return true;
    default: return false;
  }
  e.preventDefault();
  all.forEach((o, i) => o.setAttribute("aria-selected", String(i === picked)));
  all[picked].scrollIntoView({ block: "nearest" });
  say.setAttribute("aria-activedescendant", all[picked].id);
  return true;
}

function setupDrop(take) {
  const has = (e) => [...e.dataTransfer?.types ?? []].includes("Files");
  let depth = 0;
  const show = (is) => { $("drop").hidden = !is; };
  addEventListener("dragenter", (e) => { if (has(e)) { depth++; show(true); } });
  addEventListener("dragleave", (e) => { if (has(e) && --depth <= 0) { depth = 0; show(false); } });
  addEventListener("dragover", (e) => { if (has(e)) e.preventDefault(); });
  addEventListener("drop", (e) => {
    if (!has(e)) return;
    e.preventDefault();
    depth = 0;
    show(false);
    take(e.dataTransfer.files);
  });
}
