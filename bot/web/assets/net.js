// Requests and the event stream of this page's thread.

const base = `/api/threads/${encodeURIComponent(document.body.dataset.thread)}`;
const lost = (text, hint) => ({ kind: "reply", at: new Date().toISOString(), reply: { bad: true, code: "not_ready", blocks: [{ text }, { text: hint }] } });

async function entryOf(promise) {
  let res;
  try {
    res = await promise;
  } catch {
    return { ok: false, entry: lost("bobbin cannot be reached; whether this was done is unknown", "see that it runs, then look at the list of servers before you try again") };
  }
  try {
    return { ok: res.ok, entry: await res.json() };
  } catch {
    return { ok: false, entry: lost("bobbin gave an answer that this page does not understand", "reload the page") };
  }
}

export const ask = (body) => entryOf(fetch(`${base}/requests`, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
}));

export function upload(file, tag) {
  const form = new FormData();
  form.append("tag", tag);
  form.append("file", file, file.name);
  return entryOf(fetch(`${base}/requests`, { method: "POST", body: form }));
}

// attach sends a message with files.
export function attach(text, files, tag) {
  const form = new FormData();
  form.append("tag", tag);
  form.append("text", text);
  for (const f of files) form.append("file", f, f.name);
  return entryOf(fetch(`${base}/requests`, { method: "POST", body: form }));
}

export const stop = (n) => fetch(`${base}/requests/${n}`, { method: "DELETE" }).catch(() => {});
export const welcome = () => entryOf(fetch(`${base}/welcome`));

export async function board() {
  const res = await fetch(`${base}/board`);
  if (!res.ok) throw new Error(String(res.status));
  return res.json();
}

export async function complete(line) {
  try {
    const res = await fetch(`${base}/complete?line=${encodeURIComponent(line)}`);
    return res.ok ? await res.json() : [];
  } catch {
    return [];
  }
}

// save downloads a reply's file and says how that went.
export async function save(f) {
  const blob = await load(f);
  if (!blob) return "this file is no longer kept; ask for it again";
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  a.href = url;
  a.download = f.name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  return "downloaded";
}

export async function preview(f) {
  const blob = await load(f);
  return blob && URL.createObjectURL(new Blob([blob], { type: f.mime }));
}

async function load(f) {
  try {
    const res = await fetch(f.url);
    return res.ok ? await res.blob() : null;
  } catch {
    return null;
  }
}

// listen keeps a stream open while the page can be seen, and takes it up where it ended. on has history, entry, answer,
// progress, board and state("open" | "lost" | "locked").
export function listen(on) {
  let source, at = "", hide;
  const open = () => {
    source?.close();
    source = new EventSource(`${base}/events${at ? `?after=${encodeURIComponent(at)}` : ""}`);
    for (const kind of ["history", "entry", "answer", "progress", "board"]) {
      source.addEventListener(kind, (e) => {
        at = e.lastEventId;
        on[kind](JSON.parse(e.data));
      });
    }
    source.onopen = () => on.state("open");
    source.onerror = async () => {
      if (source.readyState !== EventSource.CLOSED) return on.state("lost");
      // The browser gives up on a refusal; a locked page stays locked, all else is worth another try.
      let status = 0;
      try { status = (await fetch(`${base}/board`)).status; } catch { /* not reachable */ }
      on.state(status === 401 ? "locked" : "lost");
      if (status !== 401) setTimeout(open, 2000);
    };
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hide);
    if (document.hidden) hide = setTimeout(() => source.close(), 60_000);
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}
