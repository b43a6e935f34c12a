// Sphinx's own search shows only the pages that hold every word. Whoever pastes a line of a log
// has words of their own in it (paths, versions, names), so here pages that hold some of the words
// count too, those with the rarest words first. What is replaced is `performTermsSearch` of
// Sphinx's searchtools.js; tests/e2e/docs/test_docs_site.py holds that it does what is said here.
"use strict";

const SHORTEST_PART = 4; // characters of a word that is looked for inside others
const PART_WEIGHT = 0.1; // of a word that only stands inside another
const TITLE_WEIGHT = 1.5;
const LENGTH_WEIGHT = 0.3; // 0: a long page is as good as a short one with the same words
// How-to pages come before what was measured once and why a thing was chosen.
const FOLDER_WEIGHTS = { evidence: 0.6, adr: 0.8 };
const CUT = 0.4; // pages with a lower share of the best one's score are left out

/** Every page that a table of Sphinx's index names for a word: number → weight. */
function pagesOf(table, word, weight, found) {
  const add = (pages, share) => {
    for (const page of [].concat(pages))
      found.set(page, Math.max(found.get(page) ?? 0, share));
  };
  if (Object.hasOwn(table, word)) add(table[word], weight);
  else if (word.length >= SHORTEST_PART)
    for (const [term, pages] of Object.entries(table))
      if (term.includes(word)) add(pages, weight * PART_WEIGHT);
}

/** Pages by number: how many words each holds, as a share of the mean. */
function lengthsOf(terms, count) {
  const lengths = new Array(count).fill(1);
  for (const pages of Object.values(terms))
    for (const page of [].concat(pages)) lengths[page] += 1;
  const mean = lengths.reduce((sum, one) => sum + one) / count;
  return lengths.map((one) => one / mean);
}

/** Results in Sphinx's form: what it would give, and pages that hold some of the words. */
function performTermsSearch(searchTerms, excludedTerms) {
  const { docnames, filenames, terms, titles, titleterms } = Search._index;
  const scores = new Map();
  for (const word of searchTerms) {
    const found = new Map();
    pagesOf(terms, word, 1, found);
    pagesOf(titleterms, word, TITLE_WEIGHT, found);
    const rarity = Math.log(1 + docnames.length / found.size);
    for (const [page, weight] of found)
      scores.set(page, (scores.get(page) ?? 0) + weight * rarity);
  }
  for (const word of excludedTerms) {
    const found = new Map();
    pagesOf(terms, word, 1, found);
    found.forEach((_, page) => scores.delete(page));
  }
  const lengths = lengthsOf(terms, docnames.length);
  for (const [page, score] of scores) {
    const folder = FOLDER_WEIGHTS[docnames[page].split("/")[0]] ?? 1;
    const length = 1 + LENGTH_WEIGHT * (lengths[page] - 1);
    scores.set(page, (score * folder) / length);
  }
  const least = CUT * Math.max(0, ...scores.values());
  return [...scores]
    .filter(([, score]) => score >= least)
    .map(([page, score]) => [
      docnames[page],
      titles[page],
      "",
      null,
      score,
      filenames[page],
      "text",
    ]);
}

// Before Sphinx's own listener, which was added later and starts the search.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  Search.performTermsSearch = performTermsSearch;
  // Excerpts are fetched from the pages, which no browser allows of files.
  if (location.protocol === "file:")
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
});
