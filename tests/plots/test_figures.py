from mha_cli.plots.figures import attention_figure, end_of
from mha_cli.runtime.inspection import view_attention
from tests.checkpoints import small_checkpoint, with_text
from tests.cli.test_attention import even_heads


def test_the_headings_of_heads_do_not_run_into_each_other() -> None:
    figure = attention_figure(view_attention(even_heads(*range(7), num_heads=7), "the film"), 0, None)
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert len(boxes) == 7
    assert "close to uniform" in figure.axes[0].get_title()
    assert not any(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[:number])


def test_the_picture_of_a_long_review_has_a_size_that_opens() -> None:
    long = with_text(small_checkpoint(num_heads=3, key_dim=5, positions="sinusoidal"), sequence_length=200)
    figure = attention_figure(view_attention(long, "the film " * 100), 0, None)
    width, height = figure.get_size_inches() * 150
    assert 1500 < width < 4000
    assert 500 < height < 2000


def test_models_in_one_folder_have_names_of_their_own_in_a_picture() -> None:
    names = [f"/data/experiments/2026-05/imdb/run-{letter}" for letter in "ab"]
    assert [end_of(name) for name in names] == ["…xperiments/2026-05/imdb/run-a", "…xperiments/2026-05/imdb/run-b"]
    assert (len(end_of(names[0])), end_of("runs/$a")) == (30, r"runs/\$a")
