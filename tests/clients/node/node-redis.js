import { createClient } from "redis";
import { play } from "./script.js";

const acquire = {
  parseCommand(parser, limit, key) {
    parser.push("WEIR.ACQUIRE", limit);
    parser.pushKey(key);
  },
  transformReply: undefined,
};

// node-redis.js PORT KEY [RESP version]
async function connect() {
  const [, , port, , version] = process.argv;
  const client = createClient({
    url: `redis://127.0.0.1:${port}`,
    modules: { weir: { acquire } },
    ...(version && { RESP: Number(version) }),
  });
  client.on("error", () => {}); // it connects again by itself
  await client.connect();
  const queue = (commands) =>
    commands.reduce((multi, words) => multi.addCommand(words), client.multi());
  return {
    send: (words) => client.sendCommand(words),
    custom: (...words) => client.weir.acquire(...words),
    pipeline: (commands) => queue(commands).execAsPipeline(),
    transaction: (commands) => queue(commands).exec(),
    close: () => client.close(),
  };
}

await play(connect);
