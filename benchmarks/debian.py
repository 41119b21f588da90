"""Sets for `texts.py`, made of Debian's package descriptions: 226,000 texts in 32 languages, a quarter of them in English.

    python benchmarks/debian.py FOLDER                       # debian_train.csv, debian_test.csv, and debian_en_… of the English ones
    python benchmarks/debian.py FOLDER --made 500000 2000000 # and debian_500000_train.csv, …: of the sentences of debian_train.csv

Needs Debian's apt, and fetches 100 MB by it into FOLDER/lists, beside its own lists. The label is the package's section. All packages
of one source, in all languages, are in one of the two files. A made text is two sentences of one section, drawn at random.
"""

import argparse
import csv
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

LANGUAGES = (
    "en,ca,cs,da,de,de_DE,el,eo,es,eu,fi,fr,hr,hu,id,it,ja,km,ko,ml,nb,nl,pl,pt,pt_BR,ro,ru,sk,sl,sr,sv,tr,uk,vi,zh,zh_CN,zh_HK,zh_TW"
)
HELD_OUT = 14  # one source in so many is held out
FEWEST = 50  # texts of a section, at least


def fetch(lists: Path) -> None:
    """Let apt fetch the lists of packages and their descriptions into a folder of its own."""
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    options = [
        f"Dir::State::Lists={lists.resolve()}",
        f"Acquire::Languages={LANGUAGES}",
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
    ]
    subprocess.run(["apt-get", *(part for option in options for part in ("-o", option)), "update"], check=True)


def paragraphs(files: Iterable[Path]) -> Iterator[dict[str, str]]:
    """The fields of every paragraph of apt's files; lines that go on are joined."""
    for file in files:
        done = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", str(file)], check=True, capture_output=True, text=True)
        for paragraph in done.stdout.split("\n\n"):
            lines = paragraph.replace("\n ", " ").split("\n")
            yield dict(line.split(": ", 1) for line in lines if ": " in line)


def described(lists: Path) -> Iterator[tuple[str, str, str, str]]:
    """Language, source, section and description of every package and language, each description once."""
    packages = {one["Package"]: one for one in paragraphs(sorted(lists.glob("*_Packages*"))) if "Section" in one}
    seen = set()
    for language in LANGUAGES.split(","):
        for one in paragraphs(sorted(lists.glob(f"*_Translation-{language}.*"))):
            package, text = packages.get(one.get("Package", "")), one.get(f"Description-{language}")
            if package and text and text not in seen:
                seen.add(text)
                yield language, package.get("Source", one["Package"]).split()[0], package["Section"].split("/")[-1], text


def write(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """A file with columns `text` and `label`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def made(rows: list[tuple[str, str]], number: int) -> Iterator[tuple[str, str]]:
    """So many texts of two sentences, with the sections' shares."""
    rng, sentences = np.random.default_rng(0), dict[str, list[str]]()
    for text, label in rows:
        sentences.setdefault(label, []).extend(part for part in text.replace(" . ", ". ").split(". ") if part)
    for row in rng.integers(len(rows), size=number).tolist():
        label = rows[row][1]
        drawn = rng.integers(len(sentences[label]), size=2).tolist()
        yield ". ".join(sentences[label][at] for at in drawn), label


def main() -> None:
    """Write the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--made", type=int, nargs="*", default=[], metavar="N", help="also training files of N made texts")
    arguments = parser.parse_args()
    fetch(arguments.folder / "lists")
    texts = list(described(arguments.folder / "lists"))
    for name, languages in {"debian": LANGUAGES.split(","), "debian_en": ["en"]}.items():
        parts: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
        for language, source, label, text in texts:
            if language in languages:
                parts["train" if zlib.crc32(source.encode()) % HELD_OUT else "test"].append((text, label))
        labels = [label for _, label in parts["train"]]
        known = {label for label in set(labels) if labels.count(label) >= FEWEST}
        for part, rows in parts.items():
            kept = [row for row in rows if row[1] in known]
            write(arguments.folder / f"{name}_{part}.csv", kept)
            print(f"{name}_{part}.csv: {len(kept)} texts in {len(known)} classes")
            if name == "debian" and part == "train":
                for number in arguments.made:
                    write(arguments.folder / f"debian_{number}_{part}.csv", made(kept, number))


if __name__ == "__main__":
    main()
