import { Redis } from "ioredis";
import { connectWith } from "./ioredis-like.js";
import { play } from "./script.js";

await play(connectWith(Redis));
