/* Order of the results of the search. Sphinx gives each page with a word of the query in any heading the same score. Here comes
   first what has most of the query in its title or subjects; of equal ones a page before its sections, and pages that say how to
   do it. A query such as `Network.broadcast` looks for an object. */

const FOLDERS = [
  ["docs/how-to/", 6], ["docs/tutorial", 5], ["docs/extend/", 5], ["docs/explanation/", 3], ["README", 3], ["docs/reference/", 2],
];

/** Words that readers look for, and that the title of the page about them does not have. */
const SUBJECTS = {
  "docs/how-to/certificates": "certificate certify",
  "docs/how-to/containers": "docker compose",
  "docs/how-to/faults": "crash a node cut a link",
  "docs/how-to/install": "exit status pip uvx",
  "docs/how-to/lesson": "lesson",
  "docs/how-to/watch": "step through",
};

/** Return the stems of the words of a text that a search looks for. */
function stems(text) {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return new Set(words.map((word) => stemmer.stemWord(word)));
}

/** Return the part of the query that is in a title or its subjects, and a little for the part of the title that is in the query. */
function share(query, title, subjects) {
  const [wanted, words] = [stems(query), stems(title)];
  const known = new Set([...words, ...stems(subjects)]);
  const common = [...wanted].filter((word) => known.has(word)).length;
  return common / (wanted.size || 1) + common / (words.size || 1) / 5;
}

Scorer.score = ([page, title, anchor, description, score, file, kind]) => {
  const query = new URLSearchParams(window.location.search).get("q") ?? "";
  if (kind === "object") return /[._]/.test(query) ? 100 + score : score / 3;
  const folder = FOLDERS.find(([start]) => page.startsWith(start));
  const weight = (anchor ? 0 : 4) + (folder ? folder[1] : 0);
  return 20 * share(query, title.split(" > ").at(-1), anchor ? "" : SUBJECTS[page] ?? "") + weight + score / 100;
};
