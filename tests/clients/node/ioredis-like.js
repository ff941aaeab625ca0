// ioredis, and iovalkey, which is made of it.
export function connectWith(Library) {
  return () => {
    const { WEIR_TLS, WEIR_USER: username, WEIR_SECRET: password } = process.env;
    // Where localhost is an IPv6 address first, nobody listens there.
    const options = { family: 4, ...(WEIR_TLS && { tls: {} }), ...(password && { username, password }) };
    const redis = new Library(Number(process.argv[2]), options);
    redis.on("error", () => {}); // it connects again by itself
    redis.addBuiltinCommand("weir.acquire");
    const replies = async (queue) => (await queue.exec()).map(([error, reply]) => error ?? reply);
    const calls = (commands) => commands.map((words) => ["call", ...words]);
    return {
      send: ([name, ...words]) => redis.call(name, ...words),
      custom: (...words) => redis["weir.acquire"](...words),
      pipeline: (commands) => replies(redis.pipeline(calls(commands))),
      transaction: (commands) => replies(redis.multi(calls(commands))),
      close: () => redis.quit(),
    };
  };
}
