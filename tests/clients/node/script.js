// What all clients do, by what they have in common: a function that sends the
// words of a command and promises the reply.
import { once } from "node:events";
import { createInterface } from "node:readline";

const CONNECTIONS = 5;
const EACH = 30;

async function share(connect, key) {
  const client = await connect();
  const words = ["CL.THROTTLE", `${key}:crowd`, "99", "1", "3600"];
  const replies = await Promise.all(Array.from({ length: EACH }, () => client.send(words)));
  await client.close();
  return replies.filter(([limited]) => limited === 0).length;
}

// Until the client has seen that the server was started anew.
async function sendAgain(client, words) {
  for (;;) {
    try {
      return await client.send(words);
    } catch {
      // What was sent on the old connection is lost.
    }
  }
}

// `connect` opens { send, custom, pipeline, transaction, close }.
export async function play(connect) {
  const key = process.argv[3];
  const acquire = ["WEIR.ACQUIRE", "login", key];
  const client = await connect();
  const seen = {
    ping: await client.send(["PING"]),
    cell: await client.send(["CL.THROTTLE", `${key}:cell`, "9", "5", "3600"]),
    crab: await client.send(["THROTTLE", `${key}:crab`, "9", "5", "3600"]),
    acquire: await client.send(acquire),
    custom: await client.custom("login", key),
    check: await client.send(["WEIR.CHECK", "path", "/login", "ip", `${key}:ip`]),
    error: await client.send(["WEIR.ACQUIRE", "nosuch", key]).catch(({ message }) => message),
    alive: await client.send(["PING"]),
  };
  const words = ["CL.THROTTLE", `${key}:pipeline`, "999", "1", "3600"];
  seen.pipeline = (await client.pipeline(Array(1000).fill(words))).map((reply) => reply[2]);
  const multi = ["CL.THROTTLE", `${key}:multi`, "9", "1", "3600"];
  seen.transaction = (await client.transaction(Array(3).fill(multi))).map((reply) => reply[2]);
  seen.cleared = [
    await client.send(["DEL", `${key}:multi`]), await client.send(["EXISTS", `${key}:multi`])];
  const passed = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => share(connect, key)));
  seen.passed = passed.reduce((a, b) => a + b);
  console.log(JSON.stringify(seen));

  const lines = createInterface({ input: process.stdin });
  await once(lines, "line");
  lines.close();
  console.log(JSON.stringify({ again: await sendAgain(client, acquire) }));
  await client.close();
}
