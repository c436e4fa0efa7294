// Keeps of a stylesheet the rules that some page or script can use: JSON in, {css, content}; the rest as CSS out.
// The argument is the folder of PurgeCSS.
"use strict";

const { PurgeCSS } = require(process.argv[2]);
const { css, content } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));

// Scripts set such attributes under another name, as `dataset.mounted`. A rule for whatever has the focus names no element.
const safelist = { greedy: [/data-/], standard: [/^:focus-visible$/] };

new PurgeCSS()
  .purge({ css: [{ raw: css }], content, safelist, keyframes: true })
  .then(([result]) => process.stdout.write(result.css));
