// The connection to the run: the token, requests, and the stream of events.

const KEY = "token";

/** Who may ask: what the address says leaves the address bar at once; the tab keeps it, so that the page can be reloaded. */
function takeToken() {
  const given = location.hash.slice(1);
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

let token = takeToken();

/** Exchange the address that a browser was started with, which is good for one page, for the token of the run. */
export async function enter() {
  if (!token.startsWith("once-")) return;
  token = await (await ask("/token", { method: "POST" })).json();
  sessionStorage.setItem(KEY, token);
}

async function ask(path, options = {}) {
  const headers = { authorization: `Bearer ${token}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" }).catch(() => {
    throw new Error("The coordinator does not answer; it has ended.");
  });
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
    throw new Error(error);
  }
  return answer;
}

export async function get(path) {
  return (await ask(path)).json();
}

/** Ask the run to do something; the new state. */
export async function request(content) {
  const headers = { "content-type": "application/json" };
  return (await ask("/request", { method: "POST", headers, body: JSON.stringify(content) })).json();
}

/** Call `on(name, data)` for every event until the stream ends. */
export async function follow(on) {
  const reader = (await ask("/events")).body.pipeThrough(new TextDecoderStream()).getReader();
  // Pieces are joined once an event is whole: joining at every read would take quadratic time for large events.
  let pieces = [];
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true })); // the coordinator was killed
    if (done) return;
    const blocks = value.split("\n\n");
    // A separator may be cut in two.
    if (blocks.length === 1 && !(value.startsWith("\n") && pieces.at(-1)?.endsWith("\n"))) {
      pieces.push(value);
      continue;
    }
    const text = pieces.join("") + value;
    const events = text.split("\n\n");
    pieces = [events.pop()];
    for (const event of events) {
      const [name, data] = event.split("\n");
      on(name.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}
