import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_cli.config.decisions import Facts, decide
from mha_cli.config.loading import config_from_dict, config_to_dict, config_to_yaml, load_config
from mha_cli.config.settings import Config, FilesData, LinearConfig, ModelConfig, SampleData, Settings, TextConfig, TfdsData, TrainingConfig
from mha_cli.config.yaml_file import parse_yaml
from mha_cli.errors import MhaError
from tests.errors import error_of

NO_DATA = "data.train is missing; give it with --set data.train=FILE, or let `mha init FILE` write a config"


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def load(text: str, *overrides: str) -> Config:
    Path("x.yaml").write_text(text)
    return load_config("x.yaml", overrides)


def parsed(text: str, name: str = "test") -> Config:
    return config_from_dict(parse_yaml(text, name).value, name)


def refused(text: str, *overrides: str) -> str:
    return error_of(load, text, *overrides)


# Settings


def test_json_is_yaml() -> None:
    data = {"source": "files", "train": "😀 é.csv", "text_column": 'a"\\\t'}
    assert config_to_dict(load(json.dumps({"data": data, "model": {"key_dim": None}}, indent="\t")))["data"].items() >= data.items()


@pytest.mark.parametrize("section", [SampleData, TfdsData, FilesData, TextConfig, ModelConfig, LinearConfig, TrainingConfig])
def test_every_setting_says_what_it_means(section: type[Settings]) -> None:
    assert [name for name, field in section.model_fields.items() if not (field.description or "").endswith(".")] == []


def test_a_config_without_positions_has_nothing_that_tells_the_order() -> None:
    model = {"max_ngram": 3, "ngram_buckets": 16, "ngram_dropout": 0.5, "conv_kernel_size": 5, "embed_dim": 16}
    model |= {
        "positions": "rotary",
        "max_distance": 2,
        "global_every": 3,
        "num_blocks": 2,
        "local_rotary_base": 9.0,
        "causal": True,
        "pooling": "last",
    }
    linear = {"max_ngram": 3, "buckets": 16, "end_decay": 5, "context_windows": [2]}
    found = config_from_dict({"model": model, "linear": linear}, "test").without_positions()
    assert found == Config(model=ModelConfig(positions="none", num_blocks=2, embed_dim=16), linear=LinearConfig(max_ngram=1, buckets=16))
    assert config_from_dict(config_to_dict(found), "test") == found
    assert config_from_dict({"model": model}, "test").without_positions().linear is None
    subwords = ModelConfig(subword_buckets=8, ngram_dropout=0.5)
    config = Config(text=TextConfig(subword_characters=9), model=subwords).without_positions()
    assert config.model == subwords.model_copy(update={"positions": "none"})


# The resolved config is the run again


STRANGE = ["yes", "null", "1e3", "- a", "a: b", "# a", "&a", " a ", "\x1b[31m", "a\nb\0", "🙂", "<<", "\x85", "a\u2028b", "\ufeff", " \r\n"]
texts = st.text(min_size=1, max_size=30) | st.sampled_from(STRANGE)
configs = st.builds(
    Config,
    data=st.builds(FilesData, source=st.just("files"), train=texts, test=st.none() | texts, text_column=texts),
    training=st.builds(TrainingConfig, learning_rate=st.floats(1e-300, 10)),
)


@given(configs)
@settings(max_examples=50)
def test_to_yaml_and_back(config: Config) -> None:
    assert parsed(config_to_yaml(config)) == config
    assert config_from_dict(config_to_dict(config), "test") == config


sections = {"data": [SampleData, TfdsData, FilesData], "text": [TextConfig], "model": [ModelConfig], "training": [TrainingConfig]}
setting_names = st.sampled_from(sorted({name for models in sections.values() for model in models for name in model.model_fields}))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
any_value = st.recursive(
    scalars | st.sampled_from(["pre", "none", "adam", "tfds", "files"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
any_section = any_value | st.dictionaries(setting_names | st.text(max_size=5), any_value, max_size=5)


@given(st.dictionaries(st.sampled_from([*sections, "seed"]) | st.text(max_size=5), any_section, max_size=4))
@settings(max_examples=60)
def test_any_settings_are_taken_or_refused_in_one_line(value: dict[str, Any]) -> None:
    for read in (lambda: config_from_dict(value, "x.yaml"), lambda: parsed(json.dumps(value), "x.yaml")):
        try:
            config = read()
        except MhaError as error:
            assert str(error).startswith("x.yaml")
            assert str(error).isprintable()
        else:
            assert parsed(config_to_yaml(config)) == config


# Overrides


def test_overrides_of_every_kind() -> None:
    config = load(
        "model:\n  num_heads: 2\ntraining:\n  patience: 3\n",
        "seed=7",
        "model.num_heads=8",
        "model.positions=sinusoidal",
        "text.punctuation=false",
        "training.learning_rate=1e-2",
        "training.patience=null",
        " model.dropout = 0.25 ",
    )
    assert (config.seed, config.model.num_heads, config.model.positions, config.text.punctuation) == (7, 8, "sinusoidal", False)
    assert (config.training.learning_rate, config.training.patience) == (0.01, None)
    assert config.model.dropout == 0.25


def test_another_source_leaves_the_settings_of_the_first_behind() -> None:
    text = "data:\n  source: tfds\n  name: imdb_reviews\n  test_split: test\n"
    assert load(text, "data.source=sample").data == SampleData()
    assert load(text, "data.source=tfds", "data.name=ag_news_subset").data == TfdsData(source="tfds", name="ag_news_subset")


@pytest.mark.parametrize("text", ["", "data:\n  source: tfds\n  name: imdb_reviews\n  test_split: test\n"])
def test_the_settings_of_another_source_may_come_before_it(text: str) -> None:
    expected = FilesData(source="files", train="a=b.csv", validation_share=0.2)
    assert load(text, "data.train=a=b.csv", "data.source=files", "data.validation_share=0.2").data == expected
    assert load(text, "data.train=a=b.csv", "data.validation_share=0.2", "data.source=files").data == expected
    assert refused(text, "data.name=x", "data.source=files", "data.train=x.csv").startswith("--set data.name is not a setting; ")


@pytest.mark.parametrize("separator", [",", "&", ":", "#", " ", "|", "~", ", ", "\t", '"'])
def test_a_separator_of_labels_is_plain_text_and_stays_it_in_a_file(separator: str) -> None:
    config = load("", "data.source=files", "data.train=x.csv", f"data.label_separator={separator}")
    assert config.cell_separator == separator == load(config_to_yaml(config)).cell_separator
    assert load("", "data.source=files", "data.train=x.csv", "data.label_separator=null").cell_separator == "|"
    assert load("", "data.source=files", "data.train=x.csv", f"data.label_separator='{separator}'").cell_separator == separator


def test_a_label_that_is_taken_for_another_is_not_another_ones_target() -> None:
    with pytest.raises(MhaError, match="merge_labels takes a for b, and b for c; name the last one for both"):
        load("data: {source: files, train: x.csv, merge_labels: {a: b, b: c}}")


def test_a_whole_section_as_an_override() -> None:
    assert load("model: {num_heads: 2}", "model={embed_dim: 32}").model == ModelConfig(embed_dim=32)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("a.b.c.d=1", "--set a.b.c.d: a is not a setting; choose from auto, classes, data, linear, model, seed, task, text, training"),
        ("model.num_heads.x=4", "--set model.num_heads.x: model.num_heads is {'x': 4}; it should be a valid integer"),
        ("data={source: x}", "--set data: data.source is 'x'; choose from sample, tfds, files"),
        ("model.num_heads=[2, x]", "--set model.num_heads is 'x'; it should be a valid integer"),
        ("training.optimizer=sgd", "--set training.optimizer is 'sgd'; it should be 'adamw', 'adam' or 'rmsprop'"),
        ("training.trainable_blocks=-1", "--set training.trainable_blocks is -1; it should be greater than or equal to 0"),
        ("training=fast", "--set training is 'fast', not a section of settings; write `key: value` lines below it"),
        ("data.source=files", f"x.yaml: {NO_DATA}"),
        ("seed.x=1", "--set seed.x: seed is not a section; write for example --set model.num_heads=4"),
    ],
)
def test_an_override_that_does_not_fit(override: str, message: str) -> None:
    assert refused("seed: 1\n", override) == message


def test_a_misfit_among_overrides_names_the_place_it_comes_from() -> None:
    text = "model:\n  dropout: 2\n"
    assert refused(text, "seed=3") == "x.yaml:2: model.dropout is 2; it should be less than 1"
    assert refused(text, "model.dropout=3") == "--set model.dropout is 3; it should be less than 1"
    assert refused("seed: 1\nmodel:\n  dropout: 0\n", "model.num_heads=7").startswith("x.yaml:2: model: num_heads=7 does not divide")


# Bad input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Keys
        (
            "data: 3\nname: x\n",
            "x.yaml:2: name is not a setting; choose from auto, classes, data, linear, model, seed, task, text, training",
        ),
        ("\n\ndata:\n  source: files\n  trian: x.csv\n", "x.yaml:5: data.trian is not a setting; did you mean train?"),
        (
            '"\\e[31mred": 1\n',
            r"x.yaml:1: \x1b[31mred is not a setting; choose from auto, classes, data, linear, model, seed, task, text, training",
        ),
        # Types
        ("seed: 2020-01-01\n", "x.yaml:1: seed is datetime.date(2020, 1, 1); it should be a valid integer"),
        ("data:\n  source: [files]\n", "x.yaml:2: data.source is ['files']; choose from sample, tfds, files"),
        ("data:\n  num_texts: 300\n", "x.yaml:1: data.source is missing; choose from sample, tfds, files"),
        ("data:\n  source: files\n", f"x.yaml:1: {NO_DATA}"),
        ('data: {source: tfds, name: "\\uD800"}', r"x.yaml:1: data.name is '\ud800'; it should be a valid string, unable to parse raw "),
        # Sizes
        ("model:\n  num_heads: 1000\n", "x.yaml:2: model.num_heads is 1000; it should be less than or equal to 256"),
        (f"training: {{epochs: {10**75}}}", f"x.yaml:1: training.epochs is {10**58}…; it should be less than or equal to 10000"),
        ("data: {source: files, train: x, test: [y, '']}", "x.yaml:1: data.test is ''; string should have at least 1 character"),
        # Numbers that are none
        ("model:\n  dropout: -.inf\n", "x.yaml:2: model.dropout is -inf; it should be a finite number"),
    ],
)
def test_a_setting_that_does_not_fit(text: str, message: str) -> None:
    assert refused(text).startswith(message)


FINETUNED = "linear: {}, training: {teacher: linear, finetune_epochs: 1}"
FILES = "data: {source: files, train: x.csv}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {num_heads: [2, 4]}", "model: num_heads names 2 blocks, num_blocks=1; name as many"),
        ("model: {num_heads: [2]}", "model: num_heads is a list, so key_dim cannot be embed_dim / num_heads; set key_dim"),
        ("model: {max_ngram: 2}", "model.max_ngram=2 and model.ngram_buckets=0 do not go together; take max_ngram=1 and ngram_buckets=0"),
        ("model: {max_ngram: 2, ngram_buckets: 16, positions: none}", "model.max_ngram=2 carries word order and model.positions=none must"),
        ("linear: {max_ngram: 1, context_windows: [5]}, model: {positions: none}", "linear.context_windows=[5] carries word order"),
        ("model: {positions: rotary, num_heads: [2], key_dim: 3}", "model: positions=rotary turns pairs of numbers, and heads are 3 wide;"),
        ("model: {max_distance: 2, local_rotary_base: 9}", "model: local_rotary_base=9.0 goes with positions=rotary; take local_rotary"),
        ("model: {max_distance: 2, global_every: 3}", "model: global_every=3 lets all blocks reach all, and max_distance has no effect"),
        ("model: {positions: none, causal: true}", "model: max_distance and causal carry word order and positions=none must not; take"),
        ("model: {positions: none, pooling: last}", "model: pooling=last carries word order and positions=none must not; take pooling=max"),
        ("model: {subword_buckets: 3}", "model.subword_buckets: 3 is not a power of two; take 2 or 4"),
        ("model: {conv_kernel_size: 4}", "model: conv_kernel_size=4 is even, so it has no middle; take 3 or 5"),
        ("model: {subword_buckets: 16}", "model.subword_buckets=16 needs text.subword_characters above 0; take 24, or subword_buckets=0"),
        ("text: {subword_characters: 9}", "text.subword_characters=9 has no effect; set model.subword_buckets or linear"),
        ("text: {prompt: a}", "text.prompt is for a pretrained encoder, and there is none; take prompt=null, or set model.pretrained"),
        ('text: {prompt: "\\e[2J"}', "text: prompt has control characters; leave them out"),
        ("text: {subword_characters: 2}", "text: subword_characters=2 is less than the shortest subword; take 3 or more, or 0"),
        (
            f"{FILES}, training: {{finetune_epochs: 1}}",
            "training.finetune_epochs=1 leaves out guessed labels, which need data.unlabelled or",
        ),
        (
            f"{FILES[:-1]}, unlabelled: y.txt}}, {FINETUNED[:-1]}, epochs: 1}}",
            "training.finetune_epochs=1 leaves no epoch to guessed labels",
        ),
        ("training: {teacher: linear}", "training.teacher=linear needs a linear model; set linear.max_ngram=3"),
        ("training: {keep_linear: false}", "training.keep_linear=false drops a linear model that teaches no encoder"),
        (f"data: {{source: tfds}}, {FINETUNED}", "training.finetune_epochs=1 leaves out guessed labels"),
        ("training: {monitor: last, patience: 2}", "training: patience=2 waits for a better epoch, and monitor=last has none"),
    ],
)
def test_settings_that_do_not_go_together(text: str, message: str) -> None:
    assert refused(f"{{{text}}}").startswith(f"x.yaml:1: {message}")


@pytest.mark.parametrize("value", [None, 3, "x", [], {"seed": "x"}, {"x": 1}, {"data": 3}, {"data": {"source": {}}}, {"model": []}])
def test_what_travels_in_a_checkpoint_is_held_to_the_same(value: object) -> None:
    assert error_of(config_from_dict, value, "a.keras: mha.json").startswith("a.keras: mha.json")


@pytest.mark.parametrize("subword_buckets", [0, 64])
def test_the_kept_config_where_the_linear_model_only_teaches(subword_buckets: int) -> None:
    linear, model = {"buckets": 16}, {"subword_buckets": subword_buckets}
    training = {"teacher": "linear", "keep_linear": False}
    config = config_from_dict({"text": {"subword_characters": 16}, "model": model, "linear": linear, "training": training}, "test")
    kept = config.of_checkpoint()
    assert kept.text.subword_characters == (16 if subword_buckets else 0)
    assert config_from_dict(config_to_dict(kept), "test") == kept


def test_what_auto_may_decide_is_not_refused_before() -> None:
    named = {"training": {"finetune_epochs": 7, "keep_linear": False}, "model": {"max_ngram": 1}, "linear": {"max_ngram": 1}}
    data = {"source": "files", "train": "x.csv", "unlabelled": "y.txt"}
    decided = decide(config_from_dict({"auto": True, "data": data, **named}, "test"), Facts(100, 2, 900, 99, 5.0, 10, 20))
    assert (decided.training.finetune_epochs, decided.training.epochs, decided.training.teacher) == (7, 10, "linear")
