// Asks Weir about each request of an Express application, before its routes do.
//
//     app.use(weir("http://127.0.0.1:8080"));
//     app.use(weir("http://127.0.0.1:8080", { failOpen: false, timeout: 100, token: "weir_…" }));
//
// A denied request is answered here, as Weir says: 429 or 503, with Retry-After. If Weir does not
// answer within `timeout` milliseconds, the request passes (`failOpen`) or is answered 503. Where Weir has
// users, `token` is one's; without it, WEIR_TOKEN of the environment is. Behind a proxy tell Express so
// (`trust proxy`), so that `req.ip` is the visitor's. Node 18 or newer. On Weir's own host use its Unix socket,
// "unix:/run/weir/http.sock".
//
// Where a limit waits for a report of the request, it gets one when the answer has been sent: `success`,
// `failure` (5xx, or an answer that broke off by an error), `timeout` (504), or `ignored` (4xx, or the client has
// left), and how long the request took. If the report fails, that is logged and changes nothing for the client.

import http from "node:http";

const HEADERS = ["RateLimit", "RateLimit-Policy", "Retry-After"];
const agent = new http.Agent({ keepAlive: true });

// As fetch(), which knows no Unix sockets.
function fetchFromSocket(socketPath, path, { method, headers, body, signal }) {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, path, method, headers, signal, agent }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part)).on("error", reject).on("end", () =>
        resolve(new Response(Buffer.concat(parts), { status: response.statusCode, headers: response.headers })));
    });
    request.on("error", (error) => {
      const wasClosed = request.reusedSocket && ["ECONNRESET", "EPIPE"].includes(error.code); // Weir had closed it
      if (wasClosed) fetchFromSocket(socketPath, path, { method, headers, body, signal }).then(resolve, reject);
      else reject(error);
    });
    request.end(body);
  });
}

async function post(url, path, body, token, signal) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
    signal,
  };
  const response = url.startsWith("unix:") ? await fetchFromSocket(url.slice(5), path, options)
    : await fetch(url.replace(/\/+$/, "") + path, options);
  return { response, answer: await response.json() };
}

async function ask(url, attributes, token, signal) {
  const { response, answer } = await post(url, "/v1/acquire", { attributes }, token, signal);
  if (answer?.allowed === undefined) throw new Error(`${response.status} ${JSON.stringify(answer)}`);
  return { response, permit: answer.permit };
}

async function report(url, body, token, signal) {
  const { response, answer } = await post(url, "/v1/report", body, token, signal);
  if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(answer)}`);
}

function outcomeOf(res) {
  if (!res.writableFinished) return res.errored ? "failure" : "ignored";
  const status = res.statusCode;
  if (status === 504) return "timeout";
  return status >= 500 ? "failure" : status >= 400 ? "ignored" : "success";
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
    let response, permit;
    try {
      const attributes = { method: req.method, path: decoded(req.path), ip: req.ip ?? "" };
      ({ response, permit } = await within(timeout, (signal) => ask(url, attributes, login, signal)));
    } catch (error) {
      console.warn(`weir: no decision: ${error}`);
      return failOpen ? next() : res.status(503).send("try again later\n");
    }
    for (const name of HEADERS) {
      const value = response.headers.get(name);
      if (value !== null) res.set(name, value);
    }
    if (!response.ok) return res.status(response.status).send("too many requests\n");
    if (permit) {
      const begun = performance.now();
      res.once("close", () => {
        const latency_ms = Math.max(Math.round(performance.now() - begun), 1);
        const body = { permit, outcome: outcomeOf(res), latency_ms };
        within(timeout, (signal) => report(url, body, login, signal))
          .catch((error) => console.warn(`weir: no report: ${error}`));
      });
    }
    return next();
  };
}
