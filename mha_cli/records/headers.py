"""Usual names of columns, and how to tell a header line from a row."""

import re
from collections.abc import Sequence
from unicodedata import combining, normalize


def plain_name(name: str) -> str:
    """A name as it is looked up: case and accents do not count, nor how its characters are composed."""
    plain = name.casefold()
    return plain if plain.isascii() else "".join(character for character in normalize("NFKD", plain) if not combining(character))


# fmt: off
TEXT_NAMES = frozenset(map(plain_name, (
    "text", "texts", "review", "reviews", "sentence", "sentences", "comment", "comments", "message", "body", "content", "tweet", "post",
    "question", "query", "utterance", "title", "headline", "description", "document", "feedback", "summary", "input",
    "nachricht", "kommentar", "rezension", "beschreibung", "beitrag", "inhalt", "frage", "satz", "titel",
    "texte", "avis", "commentaire", "critique", "phrase", "titre", "contenu",
    "texto", "reseña", "comentario", "mensaje", "opinión", "descripción", "contenido", "pregunta", "frase", "título",
    "comentário", "mensagem", "resenha", "avaliação", "descrição", "conteúdo", "pergunta",
    "testo", "recensione", "commento", "messaggio", "descrizione", "contenuto", "domanda", "titolo",
    "tekst", "recensie", "bericht", "opmerking", "vraag", "recenzja", "opinia", "komentarz", "wiadomość",
    "текст", "отзыв", "комментарий", "сообщение", "вопрос",
    "文本", "评论", "評論", "内容", "內容", "句子", "テキスト", "レビュー", "コメント", "本文", "文章", "텍스트", "리뷰", "댓글", "내용",
)))
LABEL_NAMES = tuple(dict.fromkeys(map(plain_name, (
    "label", "labels", "etikett", "étiquette", "etiqueta", "etichetta", "etykieta", "метка", "标签", "標籤", "ラベル", "라벨", "레이블",
    "class", "klasse", "classe", "clase", "klasa", "класс", "クラス", "클래스",
    "category", "kategorie", "catégorie", "categoría", "categoria", "kategoria", "категория", "类别", "類別", "分类", "分類", "カテゴリ",
    "カテゴリー", "카테고리",
    "target", "sentiment", "stimmung", "sentimiento", "sentimento", "тональность", "情感", "感情", "감정",
    "stars", "sterne", "étoiles", "estrellas", "estrelas", "stelle", "星级",
    "rating", "bewertung", "évaluation", "valoración", "calificación", "valutazione", "beoordeling", "ocena", "оценка",
    "评分", "評価", "평점",
    "score", "puntuación", "pontuação", "punteggio",
    "intent", "topic", "thema", "sujet", "thème", "tema", "argomento", "onderwerp", "temat", "тема", "主题", "トピック", "주제",
    "tag", "polarity", "emotion", "genre", "verdict", "kind", "type", "typ", "tipo", "тип", "类型", "유형", "y",
))))
# fmt: on
"""The likeliest first, whatever the language."""
USUAL_NAMES = TEXT_NAMES.union(LABEL_NAMES)
LEAST_TEXTS, SHORT_SHARE = 20, 0.02
"""The fewest texts below a single word that make it a header, and the largest share of them that may be single words."""
_NAME = re.compile(r"(?!\d+$)\w[^.!?,]{0,39}\??")


def is_header(row: Sequence[str], wanted: Sequence[int], num_texts: int = 1) -> bool:
    """Whether the first row of a table surely names its columns, whatever follows.

    So it does if a text column has a usual name for texts, or all wanted columns have usual names, and the other cells are names. A
    row that counts its columns from 0, as pandas does without names, is a header too. The text columns are the first of ``wanted``.
    """
    names = [plain_name(row[at].strip()) for at in wanted]
    usual = not TEXT_NAMES.isdisjoint(names[:num_texts]) or all(name in USUAL_NAMES for name in names)
    return are_numbers(row) or (usual and are_names(row, distinct=False))


def has_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table names its columns, judged with the rows below it, of the same width.

    Its cells must be names, unless one is a usual name for texts and one for labels. Either no cell or no usual name occurs in its column
    again, or the column with the longest texts begins with a single word, and hardly any text below is so short.
    """
    cells = [cell.strip() for cell in first]
    new = [at for at, cell in enumerate(cells) if cell and not any(row[at].strip() == cell for row in below)]
    usual = {plain_name(cells[at]) for at in new} & USUAL_NAMES
    if (usual & TEXT_NAMES and usual - TEXT_NAMES) or are_numbers(first):
        return True
    if not are_names(first, distinct=False):
        return False
    return bool(usual) or len(new) == sum(map(bool, cells)) or _is_word_above_texts(cells, below)


def are_names(row: Sequence[str], distinct: bool = True) -> bool:
    """Whether these cells may name columns: they are short and, but for blank ones, differ."""
    names = [name for cell in row if (name := cell.strip())]
    return bool(names) and all(map(_NAME.fullmatch, names)) and not (distinct and len({*names}) < len(names))


def are_numbers(row: Sequence[str]) -> bool:
    """Whether these cells count columns from 0, as pandas does for columns without names."""
    return len(row) > 1 and [cell.strip() for cell in row] == [str(number) for number in range(len(row))]


def _is_word_above_texts(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    sizes = [sum(len(row[at]) for row in below) for at in range(len(first))]
    texts_at = sizes.index(max(sizes))
    num_short = sum(len(row[texts_at].split()) <= 1 for row in below)
    return len(below) >= LEAST_TEXTS and len(first[texts_at].split()) == 1 and num_short <= len(below) * SHORT_SHARE
