const BLUE = "0, 114, 178", ORANGE = "213, 94, 0", GREY = "120, 120, 120";
const DEEPEST = 0.75; // of a shade: text stays readable on it, in light and in dark
const HOW = "Point at a word to read its numbers; a click holds it. With the keyboard: Tab to a list of words, then the arrow keys; Escape lets go.";
// A page has declared data, what it shows of a text, and count, the number of its words.
let held = null;

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function shade(target, hue, depth) {
  target.style.setProperty("--hue", hue);
  target.style.setProperty("--shade", (DEEPEST * depth).toFixed(3));
}

// The depth of the shade of a weight, from an equal share to all of it, by its logarithm: so a shade means the same in every head and text of a
// length. The root lets small differences be seen.
const depth = (weight) => count * weight > 1 ? Math.sqrt(Math.log(count * weight) / Math.log(count)) : Number(count === 1);

function swatch(hue, deep, text) {
  const made = element("span", "swatch", text);
  shade(made, hue, deep);
  return made;
}

function weightLegend(hue) {
  const legend = element("p", "legend"), weight = (deep) => (count ** (deep ** 2 - 1)).toFixed(4);
  legend.append("Weight:", ...(count === 1 ? [1] : [0, 0.25, 0.5, 0.75, 1]).map((deep) => swatch(hue, deep, deep === 0 ? `up to ${weight(0)}` : weight(deep))),
    `an equal share is 1/${count}`);
  return legend;
}

// A word in quotation marks, in its own direction, which what stands around it does not take.
const quoted = (position) => `\u2068“${data.words[position]}”\u2069`;

// All words as a list in which the arrow keys move; what they are called and how they are shaded is the page's.
function wordList(label) {
  const list = element("p", "words");
  list.dir = "auto"; // that of the words: from right to left in Arabic or Hebrew
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-orientation", "horizontal");
  list.setAttribute("aria-label", `${label}: the arrow keys choose a word, Escape lets go of it`);
  data.words.forEach((text, position) => {
    if (data.columns && data.columns[position] !== data.columns[position - 1]) list.append(element("b", "column", data.columns[position]), " ");
    const word = element("span", data.unknown[position] ? "word unknown" : "word", text);
    word.setAttribute("role", "option");
    word.dataset.position = position;
    list.append(word, " ");
  });
  return list;
}

function describe(word, text) {
  const said = data.unknown[word.dataset.position] ? `${text} (not in the vocabulary)` : text;
  word.title = said;
  word.setAttribute("aria-label", said);
}

// The word whose absence changes the probability most.
const strongest = () => data.occlusion.reduce((best, fall, other) => Math.abs(fall) > Math.abs(data.occlusion[best]) ? other : best, 0);

const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(4);

// The depth of the shade of a change of the probability: the change of the log-odds, so that a shade means the same in every text.
const MOST_LOG_ODDS = 3; // the deepest shade: the odds change by a factor of 20
const logOdds = (probability) => { const p = Math.min(Math.max(probability, 1e-6), 1 - 1e-6); return Math.log(p / (1 - p)); };
const changeDepth = (change) => Math.min(1, Math.abs(logOdds(data.probability) - logOdds(data.probability - change)) / MOST_LOG_ODDS);

const occlusionCard = (title) =>
  measureCard("Occlusion", `How far the probability of \u2068“${data.label}”\u2069 falls when the word is left out`, data.occlusion, BLUE, title);

// A measure of all words: weights in grey, or words for the answer in blue and against it in orange.
function measureCard(name, meaning, values, hue, title = name) {
  const card = element("section"), list = wordList(name), legend = hue === GREY ? weightLegend(GREY) : element("p", "legend");
  if (hue !== GREY) legend.append(swatch(ORANGE, 1, `-${MOST_LOG_ODDS} or less`), "against it", swatch(hue, 0, "0"), "for it", swatch(hue, 1, `+${MOST_LOG_ODDS} or more`), "(change of the log-odds)");
  list.querySelectorAll(".word").forEach((word, position) => {
    shade(word, values[position] < 0 ? ORANGE : hue, (hue === GREY ? depth : changeDepth)(values[position]));
    describe(word, `${data.words[position]}, ${name.toLowerCase()} ${hue === GREY ? values[position].toFixed(4) : signed(values[position])}`);
  });
  card.append(element("h2", "", title), element("p", "note", meaning), legend, list);
  return card;
}

function markCurrent(position) {
  for (const word of document.querySelectorAll(".word")) {
    const own = Number(word.dataset.position);
    word.classList.toggle("current", own === position);
    word.setAttribute("aria-selected", own === held);
    word.tabIndex = own === (held ?? 0) ? 0 : -1;
  }
}

// Calls show with the number of the word that is pointed at or held, or null.
function chooseWords(show) {
  const position = (event) => { const word = event.target.closest(".word"); return word && Number(word.dataset.position); };
  const hold = (chosen) => { held = shown = chosen; show(held); };
  let shown = null;
  document.getElementById("how").textContent = HOW;
  document.addEventListener("pointerover", (event) => {
    if (held === null && event.pointerType === "mouse" && position(event) !== shown) show(shown = position(event));
  });
  document.addEventListener("click", (event) => { if (position(event) !== null) hold(position(event) === held ? null : position(event)); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hold(null);
    const from = position(event), last = count - 1;
    if (from === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const right = event.target.matches(":dir(rtl) > *") ? -1 : 1;
    const to = { ArrowRight: from + right, ArrowDown: from + 1, ArrowLeft: from - right, ArrowUp: from - 1, Home: 0, End: last, Enter: from, " ": from }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    hold(to === from && to === held ? null : Math.min(Math.max(to, 0), last));
    event.target.closest(".words").querySelector(`[data-position="${held ?? from}"]`).focus();
  });
  show(null);
}

// The answer, large, with its probability; and notes on the text.
function introduce(answer, probability, notes) {
  document.getElementById("prediction").replaceChildren(answer, " ", element("small", "", probability));
  document.getElementById("notes").replaceChildren(...notes.map((note) => element("li", "", note)));
  document.title = document.title.split(":")[0] + (answer && `: ${answer} ${probability}`);
}

// The end of a page: what is known of the model.
function aboutModel(figures) {
  const fold = element("details"), list = element("dl");
  list.id = "model";
  list.append(...Object.entries(figures).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
  fold.append(element("summary", "", "About this model"), list);
  document.querySelector("main").append(fold);
}
