"""Text to words: what a token is, in every script, and that no text is too strange or too long."""

import re
import unicodedata

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from mha_cli.config.settings import TextConfig
from mha_cli.text import patterns
from mha_cli.text.patterns import all_latin, unformatted
from mha_cli.text.tokenizer import make_splitter, make_tokenizer

SETTINGS = [TextConfig(punctuation=punctuation) for punctuation in (True, False)]

any_settings = st.sampled_from(SETTINGS)

ASCII = "aB'_<br/> \t\n.,9-+@#&:/?=(wWhHtTpPsS"
SCRIPTS = "हिन्दीبَاשָׁẹ̄ภาษานำ日本ーガｶﾞမြန်မာ가각ﬁΣςİ９½"
JOINED = "\u200c\u200d\ufe0f\u00ad\u200f\u200b\u20e3\u0301\u0338’_ #@.＠👍🏽👩💻❤🇩🇪🏴\U000e0067\U000e007f©\ud800\n"
any_text = st.text(ASCII, max_size=40) | st.text(SCRIPTS + JOINED + "aA1", max_size=30) | st.text(st.characters(), max_size=20)


def tokens(text: str, **settings: object) -> list[str]:
    return make_tokenizer(TextConfig.model_validate(settings))(text)


# What a token is


def test_punctuation_is_a_setting() -> None:
    assert tokens("Good?! Don't -- see 'it'...", punctuation=False) == ["good", "don't", "see", "it"]


@pytest.mark.parametrize("text", ["", " \t\r\n\u00a0\u2028\u3000", "<br>"])
def test_white_space_has_no_token(text: str) -> None:
    assert tokens(text) == []


@given(any_text, any_settings)
def test_no_token_is_empty_or_has_white_space(text: str, settings: TextConfig) -> None:
    for token in make_tokenizer(settings)(text):
        assert token
        assert not any(char.isspace() for char in token)


@given(any_text)
@example("A\u200f\u0301")  # the accent joins its letter when the mark between them goes
def test_no_letter_or_digit_is_lost(text: str) -> None:
    kept = unicodedata.normalize("NFD", "".join(make_splitter(TextConfig(punctuation=False))(text.replace("<", " "))))
    text = unicodedata.normalize("NFD", text)  # in which an accent is no part of its letter
    assert [char for char in kept if char.isalnum()] == [char for char in text if char.isalnum()]


@given(any_text, any_text)
def test_what_stands_on_one_line_does_not_touch_the_next(left: str, right: str) -> None:
    split = make_splitter(TextConfig())
    assert split(f"{left}\n.\n{right}") == [*split(left), ".", *split(right)]


# Words in every script, emoji and addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("The plot was dull. Good?! No...", "the plot was dull . good ? ! no . . .", id="words and marks"),
        pytest.param("10/10, 3.5 stars, well-made", "10 / 10 , 3 . 5 stars , well - made", id="numbers"),
        pytest.param("a\0b \0 é", "a \ufffd b \ufffd é", id="NUL"),
        *(pytest.param(f"dull{tag}long", "dull long", id=tag) for tag in ("<br>", "<br/>", "<br />", "<Br\t\n>", "<br /><br />")),
        pytest.param("<b> <bread> < br> <br / >", "< b > < bread > < br > < br / >", id="other markup"),
        pytest.param("don't rock'n'roll 'twas actors' it''s", "don't rock'n'roll ' twas actors ' it ' ' s", id="apostrophes"),
        pytest.param("don’t ‘good’", "don't ‘ good '", id="typographic apostrophes"),
        pytest.param("_so_ very__good _", "so very good", id="underscores"),
        pytest.param(unicodedata.normalize("NFD", "Café naïve Ångström"), "café naïve ångström", id="decomposed"),
        # Scripts with spaces: a word is what stands between them, with its combining marks.
        pytest.param("मुझे हिन्दी, अच्छी लगती है।", "मुझे हिन्दी , अच्छी लगती है ।", id="Devanagari"),
        pytest.param("ক্ষমা করবেন", "ক্ষমা করবেন", id="Bengali"),
        pytest.param("தமிழ் மொழி", "தமிழ் மொழி", id="Tamil"),
        pytest.param("അവന്\u200d വന്നു", "അവന്\u200d വന്നു", id="Malayalam with a joiner"),
        pytest.param("اَلْعَرَبِيَّةُ لُغَةٌ، نعم؟", "اَلْعَرَبِيَّةُ لُغَةٌ ، نعم ؟", id="Arabic with vowels"),
        pytest.param("می\u200cخواهم", "می\u200cخواهم", id="Persian with a non-joiner"),
        pytest.param("שָׁלוֹם עולם!", "שָׁלוֹם עולם !", id="Hebrew with points"),
        pytest.param("Tiếng Việt", "tiếng việt", id="Vietnamese"),
        pytest.param("Ελλάδα ΣΊΣΥΦΟΣ", "ελλάδα σίσυφος", id="Greek"),
        pytest.param("Привет, мир; пʼять", "привет , мир ; пʼять", id="Cyrillic"),
        pytest.param("한국어 문장", "한국어 문장", id="Hangul"),
        pytest.param("ქართული ენა", "ქართული ენა", id="Georgian"),
        pytest.param("አማርኛ ነው።", "አማርኛ ነው ።", id="Ethiopic"),
        # Scripts without spaces: grapheme by grapheme.
        pytest.param("我喜欢，5分钟iPhone手机", "我 喜 欢 ， 5 分 钟 iphone 手 机", id="Han"),
        pytest.param("スーパーです。ガｶﾞ々〆〇", "ス ー パ ー で す 。 ガ ｶﾞ 々 〆 〇", id="Japanese"),
        pytest.param("ภาษาไทยน้ำ ๒๕", "ภ า ษ า ไ ท ย น้ำ ๒๕", id="Thai"),
        pytest.param("ພາສາລາວ", "ພ າ ສ າ ລ າ ວ", id="Lao"),
        pytest.param("ភាសាខ្មែរ", "ភា សា ខ្មែ រ", id="Khmer"),
        pytest.param("မြန်မာ", "မြ န် မာ", id="Burmese"),
        # Emoji: one each, however it is made up.
        pytest.param("good👍👍🏽👨‍👩‍👧‍👦ok", "good 👍 👍🏽 👨‍👩‍👧‍👦 ok", id="skin and family"),
        pytest.param("🇩🇪🇫🇷🇩", "🇩🇪 🇫🇷 🇩", id="flags"),
        pytest.param("🏴󠁧󠁢󠁥󠁮󠁧󠁿🏳️‍🌈", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏳‍🌈", id="flags of tags and of joiners"),
        pytest.param("1️⃣2⃣ #️⃣", "1⃣ 2⃣ #⃣", id="keycaps"),
        pytest.param("❤️ ❤", "❤ ❤", id="in colour or not"),
        # What is no word by its letters alone.
        pytest.param("#LoveIt, #日本語 @Bob_x!", "#loveit , #日本語 @bob_x !", id="hashtags and mentions"),
        pytest.param("#1 a#b &#39; @ ## @@a", "# 1 a # b & # 39 ; @ # # @ @a", id="what is none"),
        pytest.param("see http://a.org/x_y?q=1#z. (www.b.de)", "see http://a.org/x_y?q=1#z . ( www.b.de )", id="URLs"),
        pytest.param("看https://t.cn/Ab3真好", "看 https://t.cn/ab3 真 好", id="a URL in Chinese"),
        pytest.param("www. http:// httpx://a", "www . http : / / httpx : / / a", id="no URLs"),
        pytest.param("a.b+c@d-e.org, x@y 5@3.50", "a.b+c@d-e.org , x @ y 5 @ 3 . 50", id="e-mail"),
        # What nobody sees.
        pytest.param("\ufeffSilben\u00adtrennung\u200f!\u200b \u200b", "silbentrennung !", id="soft hyphen and signs of direction"),
    ],
)
def test_what_people_write(text: str, expected: str) -> None:
    assert tokens(text) == unicodedata.normalize("NFC", expected).split(" ")


def test_without_punctuation_addresses_and_emoji_are_left() -> None:
    assert tokens("So #good, @bob 👍! www.a.de … ©™‼", punctuation=False) == ["so", "#good", "@bob", "👍", "www.a.de"]


@given(st.lists(st.sampled_from([*"ภาษานำ้ไทยພຳ日本語がガｶﾞーｰ々មែ\u200d\u0301👍👩", "ខ្ម", "မ္မ", "ស្ត្រ"]), max_size=20))
@example(["👍", "ำ", "\u200d", "👍"])  # a vowel that takes space ends an emoji
def test_what_has_no_spaces_is_split_as_unicode_says(parts: list[str]) -> None:
    """Our expression beside the library's own grapheme clusters, of Unicode Standard Annex #29."""
    text = unicodedata.normalize("NFC", "日" + "".join(parts))
    assert tokens(text) == regex.findall(r"\X", text)


LATIN = [character for character in map(chr, range(0x3000)) if all_latin(character)]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_shorter_way_agrees_on_every_character_that_takes_it(settings: TextConfig) -> None:
    assert len(LATIN) > 900
    assert unicodedata.is_normalized("NFC", "".join(LATIN))
    tokenize = make_tokenizer(settings)
    for char in LATIN:
        for text in (f"a{char}b", f"{char}'{char} {char}#a {char}@b", f"#{char} @1{char}", f"http://a{char}{char} x{char}y@b{char}.co"):
            assert tokenize(f"{text} हि") == [*tokenize(text), "हि"]


@given(any_text, any_settings)
def test_words_are_the_text_as_it_is_written(text: str, settings: TextConfig) -> None:
    words, written, place = make_splitter(settings)(text), unicodedata.normalize("NFC", unformatted()(text.replace("\0", "\ufffd"))), 0
    assert len(words) == len(make_tokenizer(settings)(text))
    for word in words:
        place = written.index(word, place) + len(word)


@given(any_text, any_settings)
def test_words_split_again_into_themselves(text: str, settings: TextConfig) -> None:
    split = make_splitter(settings)
    assert [again for word in split(text) for again in split(word)] == split(text)


@given(any_text)
def test_punctuation_only_adds_marks(text: str) -> None:
    left = iter(tokens(text, punctuation=False))
    expected = next(left, None)
    for token in tokens(text):
        if token == expected:
            expected = next(left, None)
        else:
            assert not any(map(str.isalnum, token))
    assert expected is None


def test_no_expression_is_possessive() -> None:
    """Python 3.11.0 to 3.11.4 match possessive groups wrongly: ``'see'`` became ``see'`` there (gh-106052)."""
    finders = (patterns.latin_words(True), patterns.all_latin)
    found = [find.__self__.pattern for find in finders]
    assert not [expression for expression in found if re.search(r"[*+?}]\+|\(\?>", expression)]


# Long texts: each of these would take minutes or forever, were the time not linear in the length.


@pytest.mark.parametrize(
    ("text", "num_tokens"),
    [
        pytest.param("<br" * 100_000 + " " * 100_000, 200_000, id="line breaks that never end"),
        pytest.param(("<br" + " " * 1000) * 300, 600, id="line breaks with much space"),
        pytest.param("a" + "\u0301" * 150_000 + "\u0316" * 150_000, 1, id="one letter with many accents, in the wrong order"),
        pytest.param("Σ" + "'" * 300_000 + "Σ", 300_002, id="a final sigma with its surroundings"),
    ],
)
def test_adversarial_texts_finish(text: str, num_tokens: int) -> None:
    assert len(tokens(text)) == num_tokens


HOSTILE = [
    *("a", "'", "_", "@a", "#1_", "http://", "http://a..", "www.", "a.b+c@", "a@b.", "a'"),
    *("ខ្", "a\u200d", "👩\u200d", "👍🏽", "🇩", "1\ufe0f\u20e3", "中\u0301", "\u0301\u0316", "\u0344"),
]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("before", ["", "中", "a.b.c.d.e.f.g.h@"])
def test_hostile_repetitions_finish(unit: str, before: str) -> None:
    text = before + unit * (60_000 // len(unit))
    assert "".join(tokens(text)) == unicodedata.normalize("NFC", unformatted()(text)).replace("_", "")


def test_long_runs_of_marks_keep_every_mark() -> None:
    run = "👍" * 31 + "…" * 34
    assert tokens(f"a{run}b") == ["a", *run, "b"]
