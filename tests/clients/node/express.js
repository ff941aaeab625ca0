// An application behind the Express middleware: express.js MIDDLEWARE URL open|closed SECONDS. Tells its port.
// TOKEN may be set.
import express from "express";

const [middleware, url, failing, seconds] = process.argv.slice(2);
const { default: weir } = await import(middleware);
const app = express();
app.use(weir(url, { failOpen: failing === "open", timeout: Number(seconds) * 1000, token: process.env.TOKEN }));
app.get("/status/:status", (req, res) => res.status(Number(req.params.status)).send("welcome\n"));
app.get("/raise", () => { throw new Error("raised"); });
app.get("/slow", (_, res) => setTimeout(() => res.send("welcome\n"), 50));
app.get("/endless", (_, res) => res.write("welcome\n"));
app.get("/broken", (_, res) => res.write("welcome\n", () => res.destroy(new Error("broken"))));
app.get(/.*/, (_, res) => res.send("welcome\n"));
const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
