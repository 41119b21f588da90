import pytest

from mha_cli.config.loading import config_from_dict, load_config
from mha_cli.config.recipes import find_config, recipe_names
from mha_cli.config.settings import Config
from mha_cli.errors import MhaError
from mha_cli.tuning.space import default_search, own_values, settings_of, space_of, trial_config, with_settings

distributions = pytest.importorskip("optuna.distributions")

pytestmark = pytest.mark.extras


def space(*search: str) -> object:
    config = config_from_dict({"model": {"dropout": 0.2}, "training": {"learning_rate": 0.002, "epochs": 8}}, "test")
    (distribution,) = space_of(search, config).values()
    return distribution


def test_a_range_reaches_to_what_the_config_has() -> None:
    assert space("training.epochs=2..5") == distributions.IntDistribution(2, 8)
    assert space("model.dropout=0.3..0.5") == distributions.FloatDistribution(0.2, 0.5)
    assert space("model.dropout=0..0.5") == distributions.FloatDistribution(0.0, 0.5)
    # by orders of magnitude
    assert space("training.learning_rate=1e-4..1e-2") == distributions.FloatDistribution(0.0001, 0.01, log=True)
    assert space("training.learning_rate=0.001..0.009") == distributions.FloatDistribution(0.001, 0.009)
    assert space("training.epochs=1..80") == distributions.IntDistribution(1, 80, log=True)


def test_values_of_any_kind_come_back_as_they_were() -> None:
    config = config_from_dict({"model": {"key_dim": 8}}, "test")
    found = space_of(["model.num_heads=[4],2", "training.clip_norm=1.5", "model.positions=none,sinusoidal"], config)
    assert [settings_of({"x": value})["x"] for value in found["model.num_heads"].choices] == [[4], 2, 4]
    assert [settings_of({"x": value})["x"] for value in found["training.clip_norm"].choices] == [1.5, None]
    assert settings_of(own_values(found, config)) == {"model.num_heads": 4, "training.clip_norm": None, "model.positions": "learned"}


def test_some_epoch_is_left_to_guessed_labels() -> None:
    settings = ["training.epochs=4", "training.finetune_epochs=3"]
    assert "training.epochs=4..8" in default_search(load_config(find_config("imdb-semi"), settings))


@pytest.mark.parametrize("recipe", recipe_names())
def test_what_is_searched_by_default_fits_every_recipe(recipe: str) -> None:
    settings = ["data.train=reviews.csv"] if recipe in ("text", "pretrained") else []
    config = trial_config(load_config(find_config(recipe), settings))
    found = space_of(default_search(config), config)
    own, whole = own_values(found, config), config.model_dump()
    assert settings_of(own) == {name: whole[name.partition(".")[0]][name.partition(".")[2]] for name in found}
    for name, distribution in found.items():
        ends = distribution.choices if hasattr(distribution, "choices") else [distribution.low, distribution.high]
        assert own[name] in ends or distribution.low < own[name] < distribution.high
        for end in ends:
            with_settings(config, settings_of({name: end}), "test")


def test_trials_hold_out_more_and_learn_nothing_from_it() -> None:
    config = config_from_dict({"data": {"source": "sample", "validation_share": 0.05}, "training": {"refit_linear": True}}, "test")
    tried = trial_config(config)
    assert (tried.data.validation_share, tried.training.refit_linear) == (0.2, False)
    assert trial_config(with_settings(config, {"data.validation_share": 0.3}, "test")).data.validation_share == 0.3


def test_what_the_texts_decide_stays_open() -> None:
    """The share that is held out of the last training is decided, though not that of the trials."""
    config = config_from_dict({"auto": True, "data": {"source": "files", "train": "reviews.csv"}, "training": {}}, "test")
    tuned = with_settings(config, {"training.epochs": 7, "model.dropout": 0.1}, "test")
    assert tuned.auto
    assert (tuned.training.model_fields_set, tuned.model.model_fields_set) == ({"epochs"}, {"dropout"})
    assert "validation_share" in trial_config(config).data.model_fields_set


@pytest.mark.parametrize("search", ["model.embed_dim=1],[2", "model.dropout=0..0.1..0.5", "model.activation=relu..gelu"])
def test_odd_values_are_refused(search: str) -> None:
    with pytest.raises(MhaError, match=r"^--search model"):
        space_of([search], Config())
