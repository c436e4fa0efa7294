// An encoder like BERT in plain JavaScript: reads the file that model_file.py writes, cuts a text into word pieces,
// and computes the maps of all heads and the vector of the sentence. `workerScript` is these functions as one text
// for a worker, so each of them uses nothing but its arguments and the others.

// Return the CRC-32 of bytes, as Python's zlib has it.
export function crc32(bytes) {
  const table = Uint32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
    return byte;
  });
  let sum = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) sum = table[(sum ^ bytes[i]) & 0xff] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

// Return a model from an ArrayBuffer: sizes, tensors by name, word pieces by id and by name.
export function readModel(buffer) {
  const start = 16;
  const text = (from, count) => new TextDecoder().decode(new Uint8Array(buffer, from, count));
  if (buffer.byteLength < start || text(0, 8) !== "TFMODEL1") throw new Error("this is no model file of this book");
  const numbers = new DataView(buffer);
  if (crc32(new Uint8Array(buffer, start)) !== numbers.getUint32(12, true)) throw new Error("the file is damaged");
  const body = start + numbers.getUint32(8, true);
  const { sizes, tensors, pieces } = JSON.parse(text(start, body - start));
  const weights = {};
  for (const [name, [kind, shape, first]] of Object.entries(tensors)) {
    const count = shape.reduce((product, size) => product * size, 1);
    const kept = kind === "int8" ? Int8Array : Float32Array;
    weights[name] = new kept(buffer, body + first, count);
  }
  const names = text(body + pieces[0], pieces[1]).split("\n");
  return { ...sizes, weights, names, ids: new Map(names.map((piece, id) => [piece, id])), known: new Map() };
}

// Return a text as BERT reads it: no control characters, no accents, no capitals, spaces around Chinese characters.
export function normalise(text) {
  const chinese = [
    [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b73f], [0x2b740, 0x2b81f],
    [0x2b920, 0x2ceaf], [0xf900, 0xfaff], [0x2f800, 0x2fa1f],
  ];
  const isChinese = (code) => chinese.some(([first, last]) => code >= first && code <= last);
  const cleaned = [...text]
    .filter((c) => c !== "\ufffd" && (/[\t\n\r]/.test(c) || !/[\p{Cc}\p{Cf}\p{Cs}\p{Co}]/u.test(c)))
    .map((c) => (/\s/u.test(c) ? " " : isChinese(c.codePointAt(0)) ? ` ${c} ` : c))
    .join("");
  return [...cleaned.normalize("NFD").replace(/\p{Mn}/gu, "")].map((c) => c.toLowerCase()).join("");
}

// Return the word pieces of one word: the longest that fits, then the longest after it; [UNK] where none fits.
export function wordPieces(word, ids) {
  const letters = [...word];
  if (letters.length > 100) return ["[UNK]"];
  const pieces = [];
  for (let from = 0; from < letters.length; ) {
    let to = letters.length;
    const piece = () => (from ? "##" : "") + letters.slice(from, to).join("");
    while (to > from && !ids.has(piece())) to -= 1;
    if (to === from) return ["[UNK]"];
    pieces.push(piece());
    from = to;
  }
  return pieces;
}

// Return the ids of a text, [CLS] and [SEP] around them, and how many tokens were left out at its end.
export function tokenise(text, model) {
  const special = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
  const pieces = text.split(special).flatMap((part) => {
    if (special.test(part)) return [part];
    const words = normalise(part).match(/[!-/:-@[-`{-~]|\p{P}|(?:(?![!-/:-@[-`{-~]|\p{P})\S)+/gu) || [];
    return words.flatMap((word) => wordPieces(word, model.ids));
  });
  const kept = pieces.slice(0, model.max_len - 2);
  const tokens = ["[CLS]", ...kept, "[SEP]"].map((piece) => model.ids.get(piece));
  return { tokens, left_out: pieces.length - kept.length };
}

// Return x W^T + b for rows of x side by side; the weights are whole numbers, and a row's step multiplies its sum.
export function project(x, from, into, weights, name) {
  const whole = weights[`${name}.matrix.rounded`];
  const step = weights[`${name}.matrix.scale`];
  const bias = weights[`${name}.bias`];
  const count = x.length / from;
  const y = new Float64Array(count * into);
  for (let t = 0; t < count; t += 4) {
    const rows = Math.min(4, count - t);
    const rowOf = (i) => x.subarray((t + (i < rows ? i : 0)) * from, (t + (i < rows ? i : 0) + 1) * from);
    const [x0, x1, x2, x3] = [0, 1, 2, 3].map(rowOf);
    for (let r = 0; r < into; r++) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let j = 0, at = r * from; j < from; j++, at++) {
        const w = whole[at];
        a += w * x0[j];
        b += w * x1[j];
        c += w * x2[j];
        d += w * x3[j];
      }
      const sums = [a, b, c, d];
      for (let i = 0; i < rows; i++) y[(t + i) * into + r] = sums[i] * step[r] + bias[r];
    }
  }
  return y;
}

// Return x Phi(x). The series of the error function has no term below zero, so that nothing cancels.
export function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2;
  if (z > 6) return x > 0 ? x : 0;
  let term = z;
  let sum = z;
  for (let n = 1; term > sum * 1e-17; n++) {
    term *= (2 * z * z) / (2 * n + 1);
    sum += term;
  }
  const erf = (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
  return 0.5 * x * (1 + (x < 0 ? -erf : erf));
}

// Return LayerNorm of each row of the sum of two.
export function addAndNorm(x, more, d, eps, weights, name) {
  const gain = weights[`${name}.weight`];
  const bias = weights[`${name}.bias`];
  const y = x.map((value, i) => value + more[i]);
  for (let first = 0; first < y.length; first += d) {
    const row = y.subarray(first, first + d);
    const mean = row.reduce((total, value) => total + value, 0) / d;
    const variance = row.reduce((total, value) => total + (value - mean) ** 2, 0) / d;
    const scale = 1 / Math.sqrt(variance + eps);
    row.forEach((value, i) => (row[i] = (value - mean) * scale * gain[i] + bias[i]));
  }
  return y;
}

// Return what all heads of one layer give, side by side, and their maps; a cut head gives zeros.
export function attend(x, model, layer, isCut) {
  const { d_model: d, num_heads: heads, weights } = model;
  const width = d / heads;
  const count = x.length / d;
  const qkv = project(x, d, 3 * d, weights, `blocks.${layer}.attention.W_qkv`);
  const given = new Float64Array(count * d);
  const maps = Array.from({ length: heads }, (_, head) => {
    const place = (token, part) => token * 3 * d + part * d + head * width;
    return Array.from({ length: count }, (_, i) => {
      const scores = Array.from({ length: count }, (_, j) => {
        let score = 0;
        for (let c = 0; c < width; c++) score += qkv[place(i, 0) + c] * qkv[place(j, 1) + c];
        return score / Math.sqrt(width);
      });
      const peak = Math.max(...scores);
      const parts = scores.map((score) => Math.exp(score - peak));
      const total = parts.reduce((all, part) => all + part, 0);
      const row = parts.map((part) => part / total);
      if (!isCut(layer, head))
        row.forEach((weight, j) => {
          for (let c = 0; c < width; c++) given[i * d + head * width + c] += weight * qkv[place(j, 2) + c];
        });
      return row;
    });
  });
  return [given, maps];
}

// Return the maps of all heads, maps[layer][head][query][key], and the mean of the last vectors.
export function encode(model, tokens, cut) {
  const { d_model: d, d_ff, num_layers, norm_eps: eps, weights } = model;
  const isCut = (layer, head) => cut.some(([l, h]) => l === layer && h === head);
  const words = new Float64Array(tokens.length * d);
  const places = new Float64Array(tokens.length * d);
  const row = (name, id, c) => weights[`${name}.matrix.rounded`][id * d + c] * weights[`${name}.matrix.scale`][id];
  tokens.forEach((id, i) => {
    for (let c = 0; c < d; c++) {
      words[i * d + c] = row("embedding", id, c) + row("segments", 0, c);
      places[i * d + c] = weights["positions.table"][i * d + c];
    }
  });
  let x = addAndNorm(words, places, d, eps, weights, "embedding_norm");
  const maps = [];
  for (let layer = 0; layer < num_layers; layer++) {
    const block = `blocks.${layer}`;
    const [given, ofHeads] = attend(x, model, layer, isCut);
    maps.push(ofHeads);
    const said = project(given, d, d, weights, `${block}.attention.W_o`);
    x = addAndNorm(x, said, d, eps, weights, `${block}.norm_attention`);
    const hidden = project(x, d, d_ff, weights, `${block}.ffn.W_up`).map(gelu);
    const more = project(hidden, d_ff, d, weights, `${block}.ffn.W_down`);
    x = addAndNorm(x, more, d, eps, weights, `${block}.norm_ffn`);
  }
  const vector = new Float64Array(d);
  x.forEach((value, i) => (vector[i % d] += value / tokens.length));
  return { maps, vector };
}

// Return the cosine of the angle between two vectors.
export function cosine(a, b) {
  const dot = (u, v) => u.reduce((total, value, i) => total + value * v[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

// Return all that the page shows of two texts with some heads cut. What has no cut is kept for the next call.
export function analyse(model, { text, other, cut }) {
  const uncut = (tokens) => {
    const key = tokens.join();
    if (!model.known.has(key)) {
      if (model.known.size > 20) model.known.clear();
      model.known.set(key, encode(model, tokens, []));
    }
    return model.known.get(key);
  };
  const [first, second] = [text, other].map((written) => tokenise(written, model));
  const whole = [first, second].map(({ tokens }) => uncut(tokens));
  const now = cut.length ? [first, second].map(({ tokens }) => encode(model, tokens, cut)) : whole;
  return {
    tokens: first.tokens,
    names: first.tokens.map((id) => model.names[id]),
    left_out: [first.left_out, second.left_out],
    maps: now[0].maps,
    similarity: [cosine(whole[0].vector, whole[1].vector), cosine(now[0].vector, now[1].vector)],
    kept: cosine(whole[0].vector, now[0].vector),
  };
}

// Return the bytes behind an address, and report how many have come; `expected` says how many there must be.
export async function download(address, expected, report) {
  const wanted = await fetch(address).catch(() => {
    throw new Error("the file did not come (is this computer offline?)");
  });
  if (!wanted.ok) throw new Error(`the server has no such file (it answered ${wanted.status})`);
  const bytes = new Uint8Array(expected);
  const reader = wanted.body.getReader();
  let come = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error("the download broke off");
    });
    if (done) break;
    if (come + value.length > expected) throw new Error(`more than the ${expected} bytes came that this page expects`);
    bytes.set(value, come);
    come += value.length;
    report(come);
  }
  if (come !== expected) throw new Error(`only ${come} of ${expected} bytes came`);
  return bytes.buffer;
}

// Answer a page: { address, bytes } or { file } loads the model; { id, text, other, cut } asks for an analysis.
export function serve() {
  let model;
  self.onmessage = async ({ data }) => {
    try {
      if (data.id !== undefined) return self.postMessage({ id: data.id, result: analyse(model, data) });
      const report = (come) => self.postMessage({ come });
      model = readModel(data.file ? await data.file.arrayBuffer() : await download(data.address, data.bytes, report));
      self.postMessage({ sizes: { layers: model.num_layers, heads: model.num_heads, longest: model.max_len } });
    } catch (error) {
      const memory = error instanceof RangeError ? "there is too little memory" : error.message;
      self.postMessage({ id: data.id, problem: memory });
    }
  };
}

// Return the text of a worker that serves a page.
export function workerScript() {
  const parts = [
    crc32, readModel, normalise, wordPieces, tokenise, project, gelu, addAndNorm, attend, encode, cosine, analyse,
    download, serve,
  ];
  return `"use strict";\n${parts.map(String).join("\n")}\nserve();\n`;
}
