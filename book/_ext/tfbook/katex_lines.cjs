// Renders formulas: a line of JSON in, {tex, display, macros}; a line of JSON out, {html} or {error}.
// Ends when its input ends, so that it never outlives the build. The argument is katex's own file.
"use strict";

const katex = require(process.argv[2]);
const lines = require("node:readline").createInterface({ input: process.stdin });

lines.on("line", (line) => {
  const { tex, display, macros } = JSON.parse(line);
  let reply;
  try {
    const html = katex.renderToString(tex, { displayMode: display, macros, throwOnError: true, strict: "ignore" });
    reply = { html };
  } catch (error) {
    reply = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
});
