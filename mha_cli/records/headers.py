"""What people call the columns of labelled texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, normalize


def plain_name(name: str) -> str:
    """A name as it is looked up: case and accents do not count, nor how its characters are composed."""
    return "".join(character for character in normalize("NFKD", name.casefold()) if not combining(character))


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
_NAME = re.compile(r"[^\W\d][^.!?,]{0,39}")


def is_header(row: Sequence[str], wanted: Sequence[int]) -> bool:
    """Whether the first row of a table surely names its columns: those that are wanted by usual names, the others by names at all.

    A row that counts its columns from 0, as pandas does where they have no names, is a header, too.
    """
    names = [cell.strip() for cell in row]
    if len(names) > 1 and names == [str(number) for number in range(len(names))]:
        return True
    return are_names(row) and all(plain_name(names[at]) in USUAL_NAMES for at in wanted)


def are_names(row: Sequence[str]) -> bool:
    """Whether these cells may name columns: they are short and differ, but for blank ones."""
    names = [name for cell in row if (name := cell.strip())]
    return len({*names}) == len(names) > 0 and all(map(_NAME.fullmatch, names))
