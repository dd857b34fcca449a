// How the tests ask a client, and what it says: see ../python/asked.py.
import { createInterface } from "node:readline";

export const PROMPT = "word ".repeat(120);
export const MESSAGES = [{ role: "user", content: PROMPT }];
export const MAX_TOKENS = 200;

/** What a client is made with beside URL and key. */
export const options = ({ retries }) => (retries === null ? {} : { maxRetries: retries });

/** Say that all is loaded, and answer until the input ends; `described` makes the members of an error of this library. */
export async function serve(routes, described) {
  console.log = console.error;
  process.stdout.write("{}\n");
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    let answer;
    try {
      answer = await routes[ask.route][ask.do](ask);
    } catch (error) {
      answer = { error: described(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}
