// Counts and names the results of the search page, and marks the words on the page of a result.
"use strict";

let chapterShares = {}; // how much each chapter uses the words of the query, from 0 to 9

function sharesOf(stems) {
  const known = [...stems].filter((stem) => Object.hasOwn(BOOK_SHARES, stem)).map((stem) => BOOK_SHARES[stem]);
  const mean = (i) => known.reduce((sum, digits) => sum + Number(digits[i]), 0) / known.length;
  return Object.fromEntries(known.length ? BOOK_CHAPTERS.map((page, i) => [page, mean(i)]) : []);
}

// The words of the book with these stems, long ones first: a mark then covers all of "normalised", not "normal" in it.
function wordsWith(stems) {
  const stemmer = new Stemmer();
  return BOOK_WORDS.filter((word) => stems.has(stemmer.stemWord(word))).sort((a, b) => b.length - a.length);
}

// Sphinx lists a place once as an object and once as an entry of its index, best results last.
function withoutDoubles(results) {
  const places = new Map();
  for (const result of [...results].reverse()) {
    const place = result[0] + result[2];
    if (!places.has(place)) places.set(place, result);
  }
  return [...places.values()].reverse();
}

const inBritish = (text) => text.toLowerCase().replace(/[a-z]+/g, british);

// The entries of the index by their British spelling, and the terms of the glossary by their places in it.
function readEntries() {
  const [spelled, terms] = [Object.create(null), new Map()];
  for (const [entry, places] of Object.entries(Search._index.indexentries)) {
    (spelled[inBritish(entry)] ??= []).push(...places);
    for (const [page, id] of places) terms.set(`${Search._index.docnames[page]}#${id}`, entry);
  }
  Search._index.indexentries = spelled;
  return terms;
}

// All terms have the title "Glossary"; here, with the term.
function nameTerms(results, terms) {
  for (const result of results) {
    const term = result[0] === "book/glossary" && terms.get(result[0] + result[2]);
    if (term) result[1] += `: ${term}`;
  }
}

function sentence(results) {
  const pages = new Set(results.map(([page]) => page)).size;
  const count = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;
  return `${count(results.length, "result")} on ${count(pages, "page")}.`;
}

const NONE =
  "Your search did not match any documents. Please make sure that all words are spelled correctly " +
  "and that you've selected enough categories.";
const SOME = "Search finished, found ${resultCount} page(s) matching the search query.";

document.addEventListener("DOMContentLoaded", () => {
  let [marked, typed] = [[], []];
  let terms;
  const { _performSearch: perform, makeSearchSummary: excerpt } = Search;
  Search._performSearch = (query, stems, excluded, words, objects) => {
    chapterShares = sharesOf(stems);
    typed = [...words];
    for (const word of wordsWith(stems)) words.add(word);
    marked = [...words].sort((a, b) => b.length - a.length);
    localStorage.removeItem("sphinx_highlight_terms"); // the page of a result marks them, and no other: see below
    terms ??= readEntries();
    const results = withoutDoubles(perform(inBritish(query), stems, excluded, words, objects));
    nameTerms(results, terms);
    const messages = { [SOME]: sentence(results), [NONE]: "No page of the book has all of these words." };
    Object.assign(Documentation.TRANSLATIONS, messages);
    return results;
  };
  // Sphinx shows the text around the last of these words that a place has. The place of a term is its name: what
  // explains it comes after.
  Search.makeSearchSummary = (html, stems, anchor) =>
    excerpt(html, [...stems, ...marked, ...typed], anchor?.startsWith("#term-") ? `${anchor} ~ dd` : anchor);
  for (const opened of ["click", "auxclick"])
    document.addEventListener(opened, ({ target }) => {
      if (target.closest("#search-results a")) localStorage.setItem("sphinx_highlight_terms", marked.join(" "));
    });
});
