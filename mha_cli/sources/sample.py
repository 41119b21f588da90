"""Made-up film reviews from a small grammar, so that everything can be tried without a download.

A third are *word-order twins*, two reviews with the same tokens, equally often, and opposite classes::

    The acting was superb, not dreadful.    pos
    The acting was dreadful, not superb.    neg

Whatever ignores order (a bag of words, or attention without positions) is right on half of them. The others are *remarks* on films:
"Superb.", "We loved it!", "It could not have been better." They teach the words; a fifth of them reverses a word (*not bad*).

A twin follows a sentence plan: an opening, a construction, a subject and a closing. In a plan of the test split the row numbers of these
four agree modulo 5, in a training plan no two do. So every row occurs in training, but no two rows of a test twin ever meet there: a good
score needs the meaning of the parts, not remembered combinations. A remark is for testing if its checksum is a multiple of 5.
"""

import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import permutations, product
from typing import NamedTuple
from zlib import crc32

from mha_cli.config.settings import SampleData
from mha_cli.errors import MhaError, did_you_mean, printable
from mha_cli.sources.labelled_text import LabelledText, TextSource


def _listed(text: str, separator: str = "|") -> tuple[str, ...]:
    """The phrases between the separators of a text."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(separator))


def _by_kind(text: str) -> dict[str, tuple[str, ...]]:
    """The words of every kind, from ``kind: word, word; kind: word``."""
    return {kind.strip(): _listed(words, ",") for kind, words in (entry.split(":") for entry in text.split(";"))}


# A row's position in its table decides which plans are for testing; a table of plans keeps a multiple of 5 rows, equally frequent.
# Each five openings but the first are of one length, so that a construction is met at the same positions in training as in testing.
OPENINGS = _listed(
    """| Well, | Overall, | Honestly, | Frankly, | In short, | My verdict: | Well then, | Short review: | My view: | To be clear, |
    For the record, | To sum up, | My honest opinion: | Here we go: | We saw it last night. | It runs for two hours. |
    I went with my brother. | A film set in Rome. | It is about two sisters. | I watched it on the train. | This one came out last year. |
    The book was written in 1962. | My neighbour lent me the disc. | We sat in the third row."""
)
CLOSINGS = _listed(
    """. | ! | , in my view. | , at least to me. | , if you ask me. | , and that is that. | , just so you know. | . That is all. |
    . I saw it twice. | . My sister agrees. | . We talked about it afterwards. | . You can see it until Friday. |
    . The other parts are still to come. | . There were forty people in the room. | . The director is the same as before. |
    . I will read the book next. | . It was raining when we left the cinema. | . The whole thing takes ninety minutes. |
    . The tickets were eight euros each. | . Next week they are showing a western. | . My parents saw it years ago. |
    . The people behind us thought the same. | . We took the last bus home afterwards. | . The same team made the series for television. |
    . I wrote this on the same evening, before I read anything about it."""
)
SUBJECTS = _listed(
    """acting | plot | score | script | dialogue | end | photography | editing | pacing | casting | soundtrack | direction | humour |
    story | lighting | cast | music | film | movie | cinematography | beginning | ending | middle | lead | premise | performance |
    atmosphere | camera | finale | comedy"""
)

# {x} is what the reviewer says it was, {y} what it was not. Both come first about equally often.
CONTRASTS = _listed(
    """the {subject} was {x}, not {y} | the {subject} was not {y} but {x} | the {subject} was {x} rather than {y} |
    the {subject} was anything but {y}, in fact {x} | the {subject} was {x}, the very opposite of {y} |
    the {subject} was never {y}, always {x} | the {subject} was {x}, far from {y} | instead of being {y}, the {subject} was {x} |
    the {subject} was {x}, by no means {y} | I expected the {subject} to be {y}, and it was {x} |
    the {subject} was {x} where it might have been {y} | critics called the {subject} {y}, yet it turned out {x} |
    {x} is the word for the {subject}, hardly {y} | the {subject} is {y} in most films and {x} in this one |
    nobody could call the {subject} {y}, it was simply {x} | the {subject} was {y}, but the rest was {x} | {y} {subject}, {x} film |
    although some call the {subject} {y}, it is {x} | the {subject} is {x}, even if the first scene is {y} |
    the {subject} looked {y}, but in the end it was {x}"""
)

# Words of remarks, by the word that they are like; twins take the adjectives. A word may have slots of its own.
NEGATIVE = _by_kind(
    """adjective: dreadful, terrible, horrible, dull, boring, tedious, lifeless, clumsy, weak, poor, bad, lousy, dismal, pathetic,
    ridiculous, laughable, sloppy, bland, feeble, tiresome, awful, atrocious, appalling, abysmal, disappointing, underwhelming, mediocre,
    forgettable, predictable, unoriginal, derivative, generic, formulaic, stale, tired, flat, slow, sluggish, plodding, endless, overlong,
    overrated, confusing, incoherent, muddled, messy, chaotic, pointless, meaningless, empty, hollow, shallow, superficial, silly, stupid,
    dumb, mindless, implausible, unconvincing, fake, artificial, forced, contrived, wooden, stiff, lazy, amateurish, cheap, ugly, annoying,
    irritating, unpleasant, offensive, tasteless, unfunny, charmless, soulless, cold, dreary, lame, cheesy, corny, preachy, pretentious,
    exhausting, unbearable, unwatchable, painful, miserable, depressing, hopeless, worthless, uninspired, unimaginative, unnecessary,
    repetitive, banal, noisy, embarrassing, insulting, awkward, wrong;
    noun: mess, disaster, bore, waste of time, waste of money, failure, flop, disappointment, letdown, joke, chore, insult, travesty,
    mistake, nightmare, dud, fiasco, catastrophe, bad joke, pile of nonsense, piece of rubbish, shame, trainwreck, misfire, ordeal;
    love: hate, dislike, regret, loathe, detest, despise, forget, skip, avoid, resent; loved: hated, disliked, regretted, loathed, detested,
    despised, walked out of, skipped, avoided, slept through; moved: bored, disappointed, annoyed, irritated, frustrated, insulted,
    confused, exhausted, tired, offended, angry, sad; works: drags, fails, disappoints, bores, falls flat, goes nowhere, makes no sense,
    falls apart, stumbles, never gets going; adverb: badly, poorly, terribly, dreadfully, horribly, clumsily, lazily, awfully, sloppily,
    hopelessly, painfully; better: worse, duller, weaker, sillier, slower, poorer, more boring, more tedious, less funny, less interesting;
    best: worst, dullest, weakest, silliest, slowest, poorest, most boring, most tedious, least funny, least interesting; charm: cliches,
    nonsense, boredom, clumsiness, bad jokes, plot holes, stupidity, noise, empty talk, tired ideas, mistakes, rubbish; saves: ruins,
    spoils, sinks, kills, wrecks;
    verdict: {who} fell asleep, {who} walked out, {who} left before the end, I want my money back, I want those two hours back,
    two hours that I want back, two hours that I will not get back, {who} wasted an evening, save your money, do not waste your money,
    do not bother, skip it, avoid it, stay away, stay at home, give it a miss, never again, {who} kept looking at the clock,
    I checked my watch every five minutes, I looked at my watch, I could not wait for it to end, it goes on for ever, nothing happens,
    nothing works, nobody laughed, I did not laugh once, I could not care less, I did not care about anyone in it, it left me cold,
    it put me to sleep, it gave me a headache, it is not worth it, not worth the ticket, not worth seeing, I expected more,
    I had hoped for more, I wish I had stayed at home, it should never have been made, it has nothing to say, there is nothing in it,
    the jokes do not work, the jokes fall flat, the actors look bored, the characters are cardboard, thumbs down, one star,
    two stars at most, {who} turned it off, I asked for a refund, half of the audience left, nobody in it can act"""
)
POSITIVE = _by_kind(
    """adjective: superb, brilliant, wonderful, marvellous, splendid, fantastic, terrific, great, magnificent, delightful, dazzling,
    gripping, moving, thrilling, charming, lovely, perfect, stunning, good, excellent, amazing, awesome, outstanding, exceptional,
    extraordinary, incredible, remarkable, impressive, memorable, unforgettable, beautiful, gorgeous, funny, hilarious, witty, clever,
    smart, intelligent, thoughtful, touching, heartwarming, heartfelt, tender, sweet, warm, enjoyable, entertaining, engaging, absorbing,
    compelling, riveting, exciting, breathtaking, spectacular, fascinating, intriguing, inspiring, uplifting, powerful, strong, convincing,
    believable, original, fresh, refreshing, inventive, imaginative, stylish, elegant, subtle, rich, lively, sharp, solid, bold, satisfying,
    rewarding, fine, nice, pleasant, likeable, adorable, magical, haunting, poignant, deep, timeless, flawless, polished, glorious,
    fabulous, masterful, fun, amusing, captivating, wise, interesting, special, honest, surprising;
    noun: masterpiece, triumph, gem, delight, treat, joy, pleasure, winner, success, marvel, classic, hit, wonder, feast, work of art,
    must, real find, small miracle, tour de force, pleasant surprise, thing of beauty, knockout, favourite, jewel, good time; love: love,
    like, enjoy, adore, admire, recommend, treasure, appreciate, remember, praise; loved: loved, liked, enjoyed, adored, admired,
    recommended, treasured, appreciated, praised, laughed with; moved: moved, thrilled, delighted, charmed, amazed, gripped, touched,
    impressed, captivated, entertained, excited; works: works, shines, delivers, sparkles, soars, grips, hits the mark, comes alive,
    never fails, is a delight, steals the show; adverb: beautifully, wonderfully, brilliantly, superbly, cleverly, perfectly, convincingly,
    skilfully, elegantly, nicely; better: better, funnier, stronger, smarter, finer, richer, more exciting, more moving, more fun,
    more interesting; best: best, funniest, strongest, smartest, finest, sweetest, most exciting, most moving, most beautiful,
    most interesting; charm: charm, wit, heart, warmth, energy, imagination, humour, beauty, style, tension, good ideas, joy, laughs,
    thrills; saves: saves, carries, lifts, makes, crowns;
    verdict: {who} laughed out loud, {who} laughed until it hurt, {who} laughed and cried, {who} could not stop laughing,
    {who} could not stop smiling, I was smiling all the way home, I was in tears at the end, I could not look away,
    I was on the edge of my seat, it had me from the first minute, time flew, I did not look at the clock once, I did not want it to end,
    it ended too soon, I would watch it again, I want to see it again, I cannot wait to see it again, see it, go and see it, do not miss it,
    you have to see it, everyone should see it, worth seeing, well worth your time, worth every penny, money well spent, highly recommended,
    thumbs up, five stars, ten out of ten, it made me smile, it made me cry, it stays with you, I still think about it, it kept me guessing,
    we were glued to the screen, it won me over, it took my breath away, I was blown away, the jokes land, the whole room cheered,
    the audience clapped for minutes, it deserves every prize, {who} talked about it all night, I had a great time, we had so much fun,
    nothing is wrong with it, you will not be disappointed, one of my favourite {films}"""
)
NEUTRAL = {"subject": SUBJECTS} | _by_kind(
    """film: film, movie, picture, comedy, drama, thriller, story, sequel, documentary, romance, musical, adaptation;
    films: films, movies, comedies, thrillers, dramas, stories; small: small, little, quiet, real, true, total, complete;
    all: from start to finish, all the way through, for the whole family, in every way, for two hours, on every level, this time, again;
    parts: characters, actors, jokes, scenes, effects, songs, lines, visuals, performances, dialogues, twists, costumes;
    he: he, she, the director, the lead actor, the lead actress, the hero, the young star, the writer;
    who: I, we, my wife, my husband, my kids, my sister, my friends, everyone, everybody, the audience, all of us, the children;
    very: very, really, so, absolutely, truly, quite, simply, utterly, incredibly, just, completely, rather, pretty, totally;
    made: acted, written, directed, shot, filmed, edited, told, made, cast, paced, played, designed"""
)

# Remarks. A slot with a minus takes a word of the other class.
DIRECT = _listed(
    """{adjective} | {adjective} | {very} {adjective} | {adverb} {adjective} | {adjective} and {adjective} |
    {adjective}, {adjective} and {adjective} | a {adjective} {film} | a {adjective} {film} with a {adjective} {subject} |
    a {adjective}, {adjective} {film} | a {very} {adjective} {film} | {adjective} {film}, {adjective} {subject} |
    what a {adjective} {film} | it was {very} {adjective} | this {film} is {very} {adjective} | this is a {adjective} {film} |
    the {subject} is {adjective} | the {subject} was {very} {adjective} | the {subject} was {adjective} and {adjective} |
    the {subject} is {adjective} and the {subject} is {adjective} | the {parts} are {adjective} | the {parts} were {very} {adjective} |
    {adjective} {parts} and a {adjective} {subject} | a {adjective} {subject} and {adjective} {parts} | {he} is {adjective} |
    {he} gives a {adjective} performance | {he} is {adjective} in every scene | {he} makes the {parts} {adjective} |
    {who} found it {adjective} | {who} found the {subject} {adjective} | {who} thought the {subject} was {very} {adjective} |
    it has a {adjective} {subject} and a {adjective} {subject} | everything about it is {adjective} | {adjective} {all} |
    it was {adjective} {all} | the {subject} was {adjective} {all} | {who} {loved} it {all} | {verdict} {all} |
    so {adjective} that {verdict} | a {noun} | a {adjective} {noun} | a {small} {noun} | what a {noun} | a {noun} {all} |
    this {film} is a {noun} | the {subject} is a {noun} | {who} {loved} it | {who} {loved} this {film} | {who} {loved} the {subject} |
    {who} {loved} every minute of it | {who} really {loved} it | I wanted to {-love} it, but it {moved} me |
    it is not {adjective}, but {verdict} | I did not expect to {love} it, but I did | I {love} this {film} | I {love} the {parts} |
    you will {love} it | I think that people will {love} the {subject} | it {moved} me | the {subject} {moved} me |
    I was {moved} by the {subject} | I left the cinema {moved} | the {subject} {works} | it {works} | the {subject} {saves} it |
    everything {works} | {adverb} {made} | {adverb} {made} and {adverb} {made} | it begins {-adverb}, but it ends {adverb} |
    the {subject} is {adverb} {made} | the {best} {film} of the year | the {best} {film} I have seen in years | the {best} {film} in ages |
    one of the {best} {films} I have seen | this is the {best} {subject} I have seen | {better} than the book | {better} than I expected |
    the sequel is even {better} | it could not have been {better} | it could hardly have been any {better} |
    it is hard to imagine a {better} {film} | it was much {better} than I had thought | I have never seen a {better} {film} |
    no other {film} is as {adjective} | full of {charm} | the {subject} has a lot of {charm} | {verdict} | {verdict} | {verdict} |
    {verdict} | {verdict}, and the {subject} was {adjective} | the {subject} was {adjective}, and {verdict} | {adjective}: {verdict} |
    a {adjective} {film}: {verdict} | the {subject} was {-adjective}, but {verdict} | the {subject} was {-adjective}, but {who} {loved} it |
    a {-adjective} {subject}, but a {adjective} {film} | {-adjective} {parts}, {adjective} {film} |
    {-adjective} {parts}, {adjective} {subject} | {-adjective} {subject}, {adjective} {parts} |
    {-adjective} {subject}, {adjective} {subject} | {adjective}, not {-adjective} | not {-adjective} but {adjective} |
    the {parts} were {adjective}, not {-adjective} | the {subject} is {adjective}, not {-adjective} |
    it was {adjective} rather than {-adjective} | I expected it to be {-adjective}, and it was {adjective} |
    I expected {-adjective} {parts}, and they were {adjective} | the beginning was {-adjective}, but the {subject} is {adjective}"""
)
REVERSED = _listed(
    """it is not {-adjective} | it was not {very} {-adjective} | not {-adjective} | not {-adjective} at all | not a {-adjective} {film} |
    the {subject} was not {-adjective} | the {parts} are not {-adjective} | the {subject} is never {-adjective} |
    the {subject} is neither {-adjective} nor {-adjective} | far from {-adjective} | anything but {-adjective} |
    there is nothing {-adjective} about it | not one {-adjective} scene | {who} did not find it {-adjective} |
    nobody could call it {-adjective} | {who} did not {-love} it | I would not {-love} it | I cannot {-love} it | nobody will {-love} it |
    nobody {-loved} it | I do not {-love} the {subject} | I wanted to {-love} it | I cannot say that I {-loved} it | I was not {-moved} |
    you will not be {-moved} | I was never {-moved} by it | hardly a {-noun} | this is no {-noun} | the {subject} is not a {-noun} |
    I have seen {-better} {films} | it could have been {-better} | it could have been so much {-better} |
    the trailer is {-better} than the {film} | not as {-adjective} as I had expected | no {-charm} | a {film} without any {-charm} |
    it lacks any {-charm} | it never gets {-adjective} | never a {-adjective} moment | there is no {-charm} in it"""
)
CONTRACTIONS = {"it is": "it's", "will not": "won't", "cannot": "can't"}  # "it is" before "is not": no "it'sn't"
CONTRACTIONS |= {f"{verb} not": f"{verb}n't" for verb in ("did", "do", "was", "is", "are", "could", "would")}
REVERSED_SHARE = OPENING_SHARE = 0.2  # of the remarks; as many have a closing
MODULUS = 5


class Plan(NamedTuple):
    """The parts of a twin but for its two adjectives."""

    opening: str
    construction: str
    subject: str
    closing: str


class SampleTexts(TextSource):
    """The built-in reviews: ``train``, ``test`` (a quarter of its size) and ``twins``, the word-order twins of the test split.

    The classes are equally frequent, so an odd number is rounded down to an even one. No review occurs twice.
    """

    name = "sample"
    splits = ("train", "test", "twins")
    class_names = ("neg", "pos")

    def __init__(self, config: SampleData) -> None:
        self._config = config

    def read(self, split: str) -> Iterator[LabelledText]:
        """The reviews of a split, shuffled, always in the same order; ``group`` is a twin's sentence plan."""
        if split not in self.splits:
            raise MhaError(f"the sample reviews have no split {printable(repr(split))}", did_you_mean(split, self.splits))
        is_test, file = split != "train", f"sample, split {split}"
        rng = random.Random(int(is_test))
        num_pairs = self._config.num_texts // (8 if is_test else 2)
        num_twin_pairs = round(num_pairs / 3)

        plans = _plans(is_test)
        words = list(product(NEGATIVE["adjective"], POSITIVE["adjective"]))
        reviews: list[tuple[str, int, Plan | None]] = []
        # Drawn without replacement, so that no twin repeats: the grammar has more than the largest num_texts asks for.
        for draw in rng.sample(range(len(plans) * len(words)), num_twin_pairs):
            plan, (negative, positive) = plans[draw // len(words)], words[draw % len(words)]
            for class_id, (x, y) in enumerate([(negative, positive), (positive, negative)]):
                clause = plan.construction.format(subject=plan.subject, x=x, y=y)
                reviews.append((_sentence(plan.opening, clause, plan.closing), class_id, plan))
        remarks: set[str] = set()
        while split != "twins" and len(remarks) < 2 * (num_pairs - num_twin_pairs):
            text = _remark(class_id := len(remarks) % 2, rng)
            if text not in remarks and (crc32(text.encode()) % MODULUS == 0) == is_test:
                remarks.add(text)
                reviews.append((text, class_id, None))
        rng.shuffle(reviews)
        for line, (text, class_id, group) in enumerate(reviews, 1):
            yield LabelledText(text, self.class_names[class_id], "", file, line, group)


def _remark(class_id: int, rng: random.Random) -> str:
    def filled(template: str) -> str:
        return re.sub(r"\{(-?)(\w+)\}", word, template)

    def word(slot: re.Match[str]) -> str:
        return filled(rng.choice(NEUTRAL.get(slot[2]) or (NEGATIVE, POSITIVE)[class_id ^ bool(slot[1])][slot[2]]))

    clause = filled(rng.choice(REVERSED if rng.random() < REVERSED_SHARE else DIRECT))
    clause = re.sub(r"\ba(?= (hon|[aeiou]))", "an", clause)
    for long, short in CONTRACTIONS.items():
        if rng.random() < 0.5:
            clause = clause.replace(long, short)
    opening, closing = (rng.choice(table) if rng.random() < OPENING_SHARE else table[0] for table in (OPENINGS, CLOSINGS))
    return _sentence(opening, clause, closing)


def _sentence(opening: str, clause: str, closing: str) -> str:
    if not opening or opening.endswith("."):
        clause = clause[0].upper() + clause[1:]
    return f"{opening} {clause}{closing}".lstrip()


@cache
def _plans(is_test: bool) -> list[Plan]:
    """All sentence plans of a split: row numbers modulo 5 all equal in the test split, all different in the training split."""
    tables, residues = (OPENINGS, CONTRASTS, SUBJECTS, CLOSINGS), range(MODULUS)
    patterns = [(residue,) * len(tables) for residue in residues] if is_test else list(permutations(residues, len(tables)))
    return [
        Plan(*rows)
        for pattern in patterns
        for rows in product(*(table[residue::MODULUS] for table, residue in zip(tables, pattern, strict=True)))
    ]
