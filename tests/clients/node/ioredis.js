import { Redis } from "ioredis";
import { play } from "./script.js";

function connect() {
  const redis = new Redis(Number(process.argv[2]));
  redis.on("error", () => {}); // it connects again by itself
  redis.addBuiltinCommand("weir.acquire");
  return {
    send: ([name, ...words]) => redis.call(name, ...words),
    custom: (...words) => redis["weir.acquire"](...words),
    async pipeline(commands) {
      const replies = await redis.pipeline(commands.map((words) => ["call", ...words])).exec();
      return replies.map(([error, reply]) => error ?? reply);
    },
    close: () => redis.quit(),
  };
}

await play(connect);
