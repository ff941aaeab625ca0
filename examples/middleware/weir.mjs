// Asks Weir about each request of an Express application, before its routes do.
//
//     app.use(weir("http://127.0.0.1:8080"));
//     app.use(weir("http://127.0.0.1:8080", { failOpen: false, timeout: 100, token: "weir_…" }));
//
// A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
// answer within `timeout` milliseconds, the request passes (`failOpen`) or is answered 503. Where Weir has
// users, `token` is one's; without it, WEIR_TOKEN of the environment is. Behind a proxy tell Express so
// (`trust proxy`), so that `req.ip` is the visitor's. Node 18 or newer.

const HEADERS = ["RateLimit", "RateLimit-Policy", "Retry-After"];

async function ask(url, attributes, token, signal) {
  const response = await fetch(`${url.replace(/\/+$/, "")}/v1/acquire`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ attributes }),
    signal,
  });
  const answer = await response.json();
  if (answer?.allowed === undefined) throw new Error(`${response.status} ${JSON.stringify(answer)}`);
  return response;
}

// Node 18 may lose the signal of an AbortController, so nobody waits for fetch() to hear it.
async function within(ms, start) {
  const abort = new AbortController();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`no answer in ${ms} ms`));
      abort.abort();
    }, ms);
  });
  try {
    return await Promise.race([start(abort.signal), late]);
  } finally {
    clearTimeout(timer);
  }
}

// Express leaves it as it was sent; rules are about what it means.
function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

export default function weir(url, { failOpen = true, timeout = 100, token } = {}) {
  const login = token || process.env.WEIR_TOKEN;
  return async (req, res, next) => {
    let response;
    try {
      const attributes = { method: req.method, path: decoded(req.path), ip: req.ip ?? "" };
      response = await within(timeout, (signal) => ask(url, attributes, login, signal));
    } catch (error) {
      console.warn(`weir: no decision: ${error}`);
      return failOpen ? next() : res.status(503).send("try again later\n");
    }
    for (const name of HEADERS) {
      const value = response.headers.get(name);
      if (value !== null) res.set(name, value);
    }
    return response.ok ? next() : res.status(response.status).send("too many requests\n");
  };
}
