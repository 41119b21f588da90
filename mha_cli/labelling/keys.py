"""What the keys of a labelling mean, on the page and on the terminal."""

from collections.abc import Sequence

DIGITS = "1234567890"


def are_typed(classes: Sequence[str]) -> bool:
    """Whether there are more classes than keys, so that their names are typed."""
    return len(classes) > len(DIGITS)


def begins(classes: Sequence[str], key: str) -> bool:
    """Whether a key begins the name of a class where names are typed: it then does nothing else."""
    return are_typed(classes) and any(name.casefold().startswith(key) for name in classes)


def class_keys(classes: Sequence[str]) -> dict[str, str]:
    """The classes by the keys that give them; a digit that is a class is its own key."""
    keys = {} if are_typed(classes) else {name: name for name in classes if name in DIGITS}
    free = [key for key in DIGITS if key not in keys and not begins(classes, key)]
    return keys | dict(zip(free, (name for name in classes[: len(DIGITS)] if name not in keys), strict=False))


def key_meanings(classes: Sequence[str], several: bool) -> list[tuple[str, str]]:
    """Keys and what they mean, in words."""
    a_types = begins(classes, "a")
    enter = "keep the labels that are chosen or there; without any, accept the suggestion"
    meanings = {
        " ".join(class_keys(classes)): "choose the class beside the key, or let it go" if several else "give the class beside the key",
        "letters": are_typed(classes) and "type part of a class's name: Enter takes the first class that fits, Esc shows all",
        "Enter": enter + (" (a types here, since a class begins with it)" if a_types else ""),
        "a": not a_types and ("choose the suggested classes" if several else "accept the suggestion"),
        "n": several and not begins(classes, "n") and "none of the classes",
        "Space": "skip the text; the next start shows it again",
        "Backspace": "undo the last answer or skip",
        "← →": "go back and forth through the answers",
        "?": "show the keys",
    }
    return [(keys, meaning) for keys, meaning in meanings.items() if keys and meaning]
