// Requests to the page's own API.

const { base, thread } = document.body.dataset;
const at = (path, more) => `${base}/api/${path}?${new URLSearchParams({ thread, ...more })}`;
const lost = { error: { code: "not_ready", text: "bobbin cannot be reached; what was sent may have been done", hint: "see that it runs" } };

const locked = { error: { code: "locked", text: "this page is locked", hint: "open the link that bobbin printed" } };

async function entry(promise) {
  try {
    const res = await promise;
    return res.status === 401 ? locked : await res.json();
  } catch (e) {
    return e.name === "AbortError" ? { error: { code: "unknown", text: "cancelled; what was sent may have been done" } } : lost;
  }
}

export const list = (what) => entry(fetch(at(what)));

// use posts a wish. args is JSON text, sent as it is.
export function use(what, wish, args, signal) {
  const body = JSON.stringify(wish);
  return entry(fetch(at(what), {
    method: "POST", headers: { "Content-Type": "application/json" }, signal,
    body: args === undefined ? body : `${body.slice(0, -1)},"args":${args}}`,
  }));
}

// listen keeps a stream open. on has servers, message, watching and state("open" | "lost" | "locked", text). It gives what ends it.
export function listen(server, on) {
  let source, timer, over = false;
  const open = () => {
    source = new EventSource(at("events", server ? { server } : {}));
    source.addEventListener("servers", () => on.servers());
    source.addEventListener("watching", () => on.watching());
    source.addEventListener("message", (e) => on.message(JSON.parse(e.data)));
    source.onopen = () => on.state("open");
    source.onerror = async () => {
      source.close(); // it would begin anew by itself, and show twice what is kept
      if (over) return;
      const said = await list("servers");
      if (over) return;
      on.state(said === locked ? "locked" : "lost");
      if (said !== locked) timer = setTimeout(open, 2000);
    };
  };
  open();
  return () => {
    over = true;
    clearTimeout(timer);
    source.close();
  };
}
