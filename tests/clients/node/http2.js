// Node's own client of HTTP/2: http2.js URL. See ../README.md.
import { connect, constants } from "node:http2";
import { text } from "node:stream/consumers";
import { once } from "node:events";

const session = connect(process.argv[2]);

async function ask({ method, path, headers, body }) {
  const stream = session.request({ ...headers, ":method": method, ":path": path }, { endStream: !body });
  if (body) stream.end(body);
  const [head] = await once(stream, "response");
  return { version: 2, status: head[constants.HTTP2_HEADER_STATUS], body: await text(stream) };
}

const answers = [];
for (const questions of JSON.parse(await text(process.stdin))) {
  answers.push(await Promise.all(questions.map(ask)));
}
console.log(JSON.stringify(answers));
session.close();
