// Search that forgives a wrong letter: a word that no page has is replaced by the nearest word of the book.
"use strict";

// Letters that are added, left out, replaced or exchanged with their neighbour, to make one word of the other.
function distance(a, b) {
  let [older, old] = [[], [...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(old[j] + 1, row[j - 1] + 1, old[j - 1] + (a[i - 1] !== b[j - 1]));
      if (a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], older[j - 2] + 1);
    }
    [older, old] = [old, row];
  }
  return old[b.length];
}

// Whether a word or an object of the book begins with it. Sphinx also finds words that hold it elsewhere, as "latent"
// for the stem of "atention".
function isFound(word) {
  const stem = new Stemmer().stemWord(word);
  const { terms, titleterms } = Search._index;
  const begins = (term) => term.startsWith(stem);
  const named = () => Search.performObjectSearch(word, new Set([word])).length > 0;
  return [terms, titleterms].some((index) => Object.keys(index).some(begins)) || named();
}

// The nearest word that is found. Of words as near, the one that most pages have: BOOK_WORDS begins with those.
function nearest(word) {
  for (const most of word.length < 8 ? [1] : [1, 2]) {
    const near = BOOK_WORDS.filter(
      (other) => Math.abs(other.length - word.length) <= most && distance(word, other) <= most
    );
    const found = near.find(isFound);
    if (found) return found;
  }
  return word;
}

// The words of a query as pairs: as it is written, and as it is searched for.
function corrected(query) {
  const known = (word) => word.length < 4 || stopwords.includes(word) || /\d/.test(word) || isFound(word);
  return splitQuery(query.toLowerCase()).map((word) => [word, known(word) ? word : nearest(word)]);
}

document.addEventListener("DOMContentLoaded", () => {
  const search = Search.query;
  Search.query = (query) => {
    const words = corrected(query);
    const wrong = words.filter(([written, meant]) => written !== meant);
    const meant = words.map(([, word]) => word).join(" ");
    if (wrong.length) {
      const said = document.createElement("p");
      said.className = "tf-spelling";
      said.textContent = `No page has ${wrong.map(([word]) => `“${word}”`).join(" or ")}; results for “${meant}”:`;
      Search.status.before(said);
    }
    search(wrong.length ? meant : query);
  };
});
