import { Redis } from "iovalkey";
import { connectWith } from "./ioredis-like.js";
import { play } from "./script.js";

await play(connectWith(Redis));
