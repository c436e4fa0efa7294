// The order of the results: chapters about the word, what explains it, chapters that have it, the reference. What is on
// no shelf is reference. Sphinx gives a page 5 points for a word, 15 for one in a title, and a term of the glossary 100.
const SHELVES = [
  [/^book\/(\d\d_|after_pretraining$)/, 30],
  [/^book\/(claims|glossary|how_to_use|index|instructor_guide|notation|numpy_and_pytorch|preface|student_guide)$/, 20],
  [/^book\/notebook_/, 8],
];

Scorer.score = ([page, , , , score]) => {
  const [, shelf] = SHELVES.find(([pages]) => pages.test(page)) ?? [null, 0];
  return Math.min(score, 20 + score / 10) + shelf + 2 * (chapterShares[page] ?? 0);
};
