"""Attention, explanations and heads as a person looks at them: on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from mha_cli.arrays import Array
from mha_cli.cli.console import print_line, print_table, stdout_console
from mha_cli.errors import plural, printable
from mha_cli.runtime.inspection import AttentionView, Explanation, entropy_line, marked, mean_entropy, near_uniform, strongest_links

if TYPE_CHECKING:
    from rich.console import Console

    from mha_cli.analysis.inside.head_scores import HeadReport
    from mha_cli.analysis.inside.pruning import PruningReport

SHADES = " ░▒▓█"
MOST_ROWS = 12  # rows of a table: links of a text too long for a heat map, or words


def attention(view: AttentionView, block: int, head: int | None) -> None:
    """A heat map if it fits, else the strongest links and how much attention each word receives; of nearly uniform attention, its range."""
    console = stdout_console()
    which = "mean over the heads" if head is None else f"head {head}"
    weights_LL = view.of(block, head)
    entropy = mean_entropy(weights_LL)
    answer = f"{printable(view.prediction.label)} {view.prediction.probability:.4f}"
    print_line(f"{answer}; block {block}, {which}: {entropy_line(entropy, len(view.words))}")
    words = marked(view.words, view.unknown, 16)
    width = max(map(cell_len, words))
    if near_uniform(entropy, len(words)):
        _print_uniform(view, block, head, weights_LL)
    elif width + 3 * len(words) + 4 <= console.width:
        print_line(f"rows look, columns are looked at; the darkest shade is a weight of {weights_LL.max():.3f}")
        _print_heat_map(console, words, weights_LL, width)
    else:
        _print_links(words, weights_LL)
    for note in view.notes:
        print_line(note)


def explanation(result: Explanation) -> None:
    """The text with each word coloured or signed by its effect, then a table of the words with the largest effects."""
    console = stdout_console()
    coloured = console.color_system is not None and not console.no_color
    by_signs = "+ before a word: it speaks for it, - against it; the more, the stronger"
    legend = "blue words speak for it, orange ones against it" if coloured else by_signs
    print_line(f"{printable(result.prediction.label)} {result.prediction.probability:.4f}; {legend}")
    largest = max(map(abs, result.occlusion)) or 1.0
    words = marked(result.words, result.unknown, 80)
    line = [_weighed(word, fall / largest, coloured) for word, fall in zip(words, result.occlusion, strict=True)]
    console.print(Text(" ").join(line))
    columns = {
        "probability falls\nwithout it": [f"{fall:+.4f}" for fall in result.occlusion],
        "integrated\ngradient": [f"{gradient:+.4f}" for gradient in result.gradients or []],
        "looked at": [f"{share:.1%}" for share in result.attention],
    }
    columns = {heading: cells for heading, cells in columns.items() if cells}
    if result.columns:
        columns = {"column": [printable(name, 20) for name in result.columns]} | columns
    rows = list(zip(marked(result.words, result.unknown, 40), *columns.values(), strict=True))
    order = sorted(range(len(rows)), key=lambda position: -abs(result.occlusion[position]))[:MOST_ROWS]
    title = f"What decides for {printable(result.prediction.label)}"
    print_table(["word"], [*columns], [rows[position] for position in order], title)
    for note in result.notes:
        print_line(note)
    entropy, num_words = mean_entropy(result.attention), len(rows)
    if near_uniform(entropy, num_words):
        print_line(f"all words are looked at about equally: {entropy_line(entropy, num_words)}")
    print_line("how much a word is looked at is not by itself an explanation (Jain and Wallace 2019)")


def heads(report: HeadReport, pruning: PruningReport | None) -> None:
    """One row per head, and the outcome of pruning."""
    title = f"{report.data}, split {report.split}, {plural(report.num_texts, 'text')}: accuracy {report.accuracy:.2%}"
    rows = []
    for head in report.heads:
        figures = (f"{head.accuracy_without:.2%}", f"{100 * head.accuracy_fall:+.2f}", f"{head.importance:.2e}")
        most = max(head.looks_at, key=head.looks_at.__getitem__)
        rows.append((f"{head.block}", f"{head.head}", *figures, f"{most} {head.looks_at[most]:.0%}"))
    print_table(["block", "head"], ["accuracy\nwithout it", "lost", "gradient\nimportance", "looks most at"], rows, title)
    if pruning is None:
        return
    removed = ", ".join(f"{block}.{head}" for block, head in pruning.removed)
    accuracy = ("accuracy", f"{pruning.accuracy_before:.2%}", f"{pruning.accuracy_after:.2%}")
    weights = ("weights", f"{pruning.num_weights_before:,}", f"{pruning.num_weights_after:,}")
    print_table([], ["", "before", "after"], [accuracy, weights], f"Without the heads {removed}")
    print_line(f"written: {pruning.checkpoint}")


def _print_uniform(view: AttentionView, block: int, head: int | None, weights_LL: Array) -> None:
    """Print weights instead of equal shades, and the heads that are worth a look."""
    num_words = len(view.words)
    print_line(
        f"attention is close to uniform: every word looks at all {num_words} about equally, with weights "
        f"from {weights_LL.min():.3f} to {weights_LL.max():.3f} (equal shares: {1 / num_words:.3f})"
    )
    entropies = [mean_entropy(weights) for weights in view.weights[block]] if head is None else []
    if uneven := [f"--head {number} ({entropy:.3f})" for number, entropy in enumerate(entropies) if not near_uniform(entropy, num_words)]:
        print_line(f"not uniform by themselves: {', '.join(uneven)}")
    print_line("`mha explain` shows which words decide; --json, --html and --png have all weights")


def _print_heat_map(console: Console, words: list[str], weights_LL: Array, width: int) -> None:
    """One row and one column per word; a darker shade is a larger weight. Columns carry the numbers of their words."""
    console.print(Text(" " * (width + 4) + "".join(f"{column:>3}" for column in range(len(words)))))
    largest = max(float(weights_LL.max()), 1e-9)
    for row, (word, weights_L) in enumerate(zip(words, weights_LL, strict=True)):
        line = Text(f"{row:>3} {set_cell_size(word, width)}")
        for weight in weights_L:
            shade = SHADES[min(int(float(weight) / largest * len(SHADES)), len(SHADES) - 1)]
            line.append(" " + shade * 2)
        console.print(line, no_wrap=True)


def _print_links(words: list[str], weights_LL: Array) -> None:
    strongest = strongest_links(weights_LL, MOST_ROWS)
    links = [(f"{words[row]} ({row})", f"{words[column]} ({column})", f"{weight:.3f}") for row, column, weight in strongest]
    print_table(["word", "looks at"], ["weight"], links, "Strongest links")
    looked_at = weights_LL.mean(axis=0)
    most = [(f"{words[at]} ({at})", f"{looked_at[at]:.1%}") for at in looked_at.argsort()[::-1][:MOST_ROWS]]
    print_table(["word"], ["share of attention"], most, "Most looked at, by all words")


def _weighed(word: str, share: float, coloured: bool) -> Text:
    """A word in blue if it speaks for the class, in orange if against it; or with one to three signs. Below a tenth it stays plain."""
    strength = sum(abs(share) > limit for limit in (0.1, 0.33, 0.66))
    if not coloured:
        return Text(("+" if share > 0 else "-") * strength + word)
    style = ("", "", "bold ", "bold reverse ")[strength] + ("blue" if share > 0 else "dark_orange")
    return Text(word, style if strength else "")
