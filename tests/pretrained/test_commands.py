"""A pretrained encoder from its folder to every command; encoders with random weights, since what they answer does not count."""

import json
import pickle
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import mha_cli
from mha_cli.checkpoint.file import read_checkpoint
from mha_cli.config.loading import load_config
from mha_cli.pages.inspection import live_page
from mha_cli.preparation.prepare import prepare
from mha_cli.runtime.classifier import forward_of
from mha_cli.system.callbacks import Callbacks
from mha_cli.training import trainable_blocks
from mha_cli.training.frozen import FrozenEncoder
from mha_cli.training.trainer import Trainer
from tests.cli.command import Mha, Result, refusal, run_here, set_all, step_by_step
from tests.pretrained.tiny import tiny_folder
from tests.training.epochs import run_epoch
from tests.training.interruptions import assert_same_run, interrupt, train

ROWS = "".join(f"the film {number} was dreadful,bad\nthe film {number} was superb,good\n" for number in range(40))
SETTINGS = "data.train=texts.csv", "model.pretrained=encoder", "training.epochs=2", "training.batch_size=27"
PROMPT = {"prompts": {"task": "Classify:\n"}, "default_prompt_name": "task"}
TRAIN = ("train", "--config", "pretrained", *set_all(*SETTINGS))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, an encoder, and two runs: ``frozen`` and ``tuned``. Not to be written to."""
    cwd = tmp_path_factory.mktemp("pretrained")
    (cwd / "texts.csv").write_text("text,label\n" + ROWS)
    tiny_folder(cwd / "encoder", "bert")
    with step_by_step():
        for output, blocks in (("frozen", "0"), ("tuned", "1")):
            run_here(*TRAIN, "--set", f"training.trainable_blocks={blocks}", "--output", output, cwd=cwd).well()
    return cwd


@pytest.fixture
def cwd(trained: Path, tmp_path: Path) -> Path:
    """A copy of that folder, without the encoder: a checkpoint needs none."""
    return shutil.copytree(trained, tmp_path / "copy", ignore=shutil.ignore_patterns("encoder"))


def test_a_tuned_encoder_changes_its_last_block_only(trained: Path) -> None:
    frozen, tuned = (read_checkpoint(trained / run / "checkpoint.keras").weights for run in ("frozen", "tuned"))
    changed = {path for path in frozen if not np.array_equal(frozen[path], tuned[path])}
    assert {path.partition("/")[0] for path in changed} == {"encoder_1", "classifier"}
    assert load_config(trained / "tuned" / "config.yaml").training.trainable_blocks == 1


@pytest.mark.parametrize(("family", "blocks"), [("modernbert", 0), ("qwen3", 1)])
def test_a_modern_encoder_from_its_folder_to_every_command(family: str, blocks: int, tmp_path: Path) -> None:
    import keras

    cwd = tmp_path
    (cwd / "texts.csv").write_text("text,label\n" + ROWS)
    (tiny_folder(cwd / "encoder", family) / "config_sentence_transformers.json").write_text(json.dumps(PROMPT))
    with step_by_step():
        result = run_here(*TRAIN, "--set", f"training.trainable_blocks={blocks}", "--output", "tuned", cwd=cwd).well()
    assert 'text.prompt: the encoder reads "Classify:\\n" before every text\n' in result.stderr
    shutil.rmtree(cwd / "encoder")
    texts = "the film 7 was superb", "the film 8 was dreadful"
    answers = run_here("predict", "--checkpoint", "tuned", *texts, cwd=cwd).well()
    assert [line.split("\t")[0] for line in answers.stdout.splitlines()] == ["good", "bad"]
    checkpoint = read_checkpoint(cwd / "tuned" / "checkpoint.keras")
    assert checkpoint.config.text.prompt == "Classify:\n"
    encoded = checkpoint.text_pipeline.encode(texts[0])
    inputs = {"pieces": encoded.pieces[None], "token_ids": encoded.tokens[None]}
    model = keras.models.load_model(cwd / "tuned" / "checkpoint.keras")
    theirs = np.array(model(inputs if isinstance(model.input, dict) else list(inputs.values())))
    np.testing.assert_allclose(theirs, forward_of(checkpoint)(inputs)[:, 1:], atol=1e-5)
    explained = run_here("explain", texts[0], "--gradients", "--checkpoint", "tuned", "--json", cwd=cwd).well().json
    assert explained["words"] == texts[0].split()
    assert sum(explained["attention"]) == pytest.approx(1.0, abs=1e-4)
    seen = run_here("attention", texts[0], "--checkpoint", "tuned", "--json", cwd=cwd).well().json
    assert "Cl" in "".join(seen["words"])
    run_here("export", "tuned", "--format", "onnx", "--output", "exported.onnx", cwd=cwd).well()


def test_weights_in_half_precision_are_opened_by_keras(trained: Path) -> None:
    import keras

    path = trained / "tuned" / "checkpoint.keras"
    checkpoint, model = read_checkpoint(path), keras.models.load_model(path)
    [encoded] = [checkpoint.text_pipeline.encode("the film 7 was superb, and not dreadful")]
    inputs = {"pieces": encoded.pieces[None], "token_ids": encoded.tokens[None]}
    theirs = np.array(model(inputs if isinstance(model.input, dict) else list(inputs.values())))
    assert {weight.dtype for weight in model.weights} == {"float32"}
    np.testing.assert_allclose(theirs, forward_of(checkpoint)(inputs)[:, 1:], atol=1e-5)


@pytest.mark.usefixtures("untraced")  # as the run
def test_an_encoder_of_few_texts(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts from the regression, and learns from the validation part in the end."""
    monkeypatch.chdir(trained)
    found = read_checkpoint(Path("tuned", "checkpoint.keras")).weights
    unaware = prepare(load_config(Path("tuned", "config.yaml")))
    data = unaware.starting_from(FrozenEncoder(unaware.config, unaware, tmp_path / "features").start())
    for texts, is_same in ((data.with_validation(), True), (unaware.with_validation(), False)):
        trainer = Trainer(data.config, texts)
        for epoch in (1, 2):
            run_epoch(trainer, epoch)
        name = "encoder_1/feed_forward_out/kernel"
        assert (np.mean(trainer.weights()[name].astype(np.float16) == found[name]) > 0.99) == is_same


def test_trainings_on_top(trained: Path, tmp_path: Path) -> None:
    """A frozen encoder takes in a new class, and a tuned one that knows its held-out texts is refused."""
    (more := tmp_path / "more.csv").write_text("text,label\n" + ROWS.replace(",bad", ",poor"))  # no text is bad any more

    def train_on(run: str) -> Result:
        return run_here("train", "--from", run, "--set", f"data.train={more}", "--output", tmp_path / run, cwd=trained)

    assert train_on("frozen").code == 0
    model = mha_cli.load(tmp_path / "frozen")
    assert model.classes == ("bad", "good", "poor")
    assert [one.label for one in model.predict(["the film 9 was superb", "the film 9 was dreadful"])] == ["good", "poor"]
    assert refusal(train_on("tuned")) == (
        "training.base: its encoder has learnt from its held-out texts in the end (training.few_labels); train anew on "
        "all texts: the command of the base's training with --set data.more=[FILE]"
    )


@pytest.mark.parametrize("run", ["frozen", "tuned"])
def test_answers_are_right_and_those_of_the_evaluation(run: str, mha: Mha) -> None:
    answers = mha("predict", "--checkpoint", run, "the film 7 was superb", "the film 8 was dreadful")
    assert [line.split("\t")[0] for line in answers.stdout.splitlines()] == ["good", "bad"]
    figures = mha("evaluate", run, "--split", "validation", "--json").json
    assert figures["accuracy"] == 1.0


def test_attention_is_between_pieces_and_explanations_are_of_words(mha: Mha) -> None:
    seen = mha("attention", "the film was superb", "--checkpoint", "tuned", "--json").json
    assert (seen["words"][0], seen["words"][-1]) == ("[CLS]", "[SEP]")
    np.testing.assert_allclose(np.sum(seen["weights"], axis=-1), 1.0, atol=1e-4)
    explained = mha("explain", "the film was superb", "--gradients", "--checkpoint", "tuned", "--json").json
    words = ["the", "film", "was", "superb"]
    assert explained["words"] == words
    texts = [" ".join(words), *(" ".join(words[:place] + words[place + 1 :]) for place in range(4))]
    answers = mha("predict", *texts, "--checkpoint", "tuned", "--json").stdout.splitlines()
    whole, *without = (json.loads(answer)["probabilities"][explained["label"]] for answer in answers)
    np.testing.assert_allclose(explained["occlusion"], whole - np.array(without), atol=1e-4)
    assert sum(explained["attention"]) == pytest.approx(1.0, abs=1e-4)
    assert len(explained["gradients"]) == 4


@pytest.mark.parametrize(
    "form", ["int8", "onnx", *(pytest.param(form, marks=pytest.mark.exhaustive) for form in ("saved-model", "litert"))]
)
def test_exports_answer_as_the_checkpoint(form: str, mha: Mha) -> None:
    mha("export", "tuned", "--format", form, "--output", "exported.keras").well()


@pytest.mark.usefixtures("untraced")
def test_heads_are_scored_and_removed(mha: Mha) -> None:
    result = mha("heads", "tuned", "--split", "validation", "--data", "texts.csv", "--prune", "1", "--output", "pruned.keras", "--json")
    assert result.code == 0, result.stderr
    assert mha("predict", "--checkpoint", "pruned.keras", "the film 7 was superb").stdout.startswith("good")


def test_words_are_shuffled_for_both_readings(mha: Mha) -> None:
    result = mha("shuffle-test", "tuned", "--data", "texts.csv", "--shuffles", "2", "--json").well()
    assert result.json[0]["reads_order"]


@pytest.mark.usefixtures("untraced")
def test_features_are_computed_once(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cwd, run = shutil.copytree(trained, tmp_path / "copy"), tmp_path / "copy" / "stopped"
    with monkeypatch.context() as patch:
        patch.setattr("mha_cli.linear.last_layer._regression", Mock(side_effect=KeyboardInterrupt))
        assert run_here(*TRAIN, "--set", "training.trainable_blocks=0", "--output", "stopped", cwd=cwd).code == 130
    features = run / "last" / "features.f32"
    features.write_bytes(features.read_bytes()[:-100])
    monkeypatch.setattr("mha_cli.training.computed_once.CHUNK", 8)
    result = run_here("train", "--config", "stopped/config.yaml", "--output", "stopped", "--resume", cwd=cwd).well()
    assert "features of 80 of 80 texts" in result.stderr
    assert "features of 72 of 80 texts" not in result.stderr
    before = read_checkpoint(cwd / "frozen" / "checkpoint.keras").weights
    for path, weight in read_checkpoint(run / "checkpoint.keras").weights.items():
        np.testing.assert_allclose(weight, before[path], atol=1e-3, err_msg=path)  # rounded to float16
    assert not features.parent.exists()


@pytest.mark.usefixtures("untraced")
def test_a_frozen_encoder_stopped_after_its_step_goes_on(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    config = load_config(Path("frozen", "config.yaml"))
    train(config, tmp_path / "whole")
    interrupt(config, tmp_path / "run", 1)
    train(config, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.usefixtures("trained_in_numpy")
def test_a_run_teaches_a_small_model(mha: Mha, tmp_path: Path) -> None:
    teach = set_all("data.train=texts.csv", "training.teacher=tuned", "training.epochs=2")
    result = mha("train", "--config", "text", *teach, "--output", "small").well()
    assert re.search(r"the teacher's answers of 1,600 of 1,600 texts, .+, done", result.stderr)  # 64 written and 24 made of each
    answers = mha("predict", "--checkpoint", "small", "the film 7 was superb", "the film 8 was dreadful")
    assert [line.split("\t")[0] for line in answers.stdout.splitlines()] == ["good", "bad"]
    assert not read_checkpoint(tmp_path / "copy" / "small" / "checkpoint.keras").config.model.pretrained


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("most_work", "blocks"), [(trainable_blocks.MOST_WORK, "all"), (0, 0)])
def test_the_work_decides_and_no_clock(most_work: float, blocks: str | int, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setattr(trainable_blocks, "perf_counter", iter(range(0, 10**9, 10**5)).__next__)  # a busy machine
    monkeypatch.setattr(trainable_blocks, "MOST_WORK", most_work)
    config, notes = load_config(Path("tuned", "config.yaml")).changed(training={"trainable_blocks": "auto"}), list[str]()
    data = trainable_blocks.decide_trainable_blocks(prepare(config), Callbacks(note=notes.append))
    assert data.config == config.changed(training={"trainable_blocks": blocks})
    assert re.fullmatch(rf"about .+,... minutes fine-tuned, .+ frozen; training.trainable_blocks={blocks} by .+", notes[0])


@pytest.mark.usefixtures("untraced")
def test_the_recipe_for_reviews_reads_ngram_embeddings_beside_the_encoder(trained: Path, tmp_path: Path) -> None:
    cwd = shutil.copytree(trained, tmp_path / "copy")
    texts = "data.source=files", "data.train=texts.csv", "data.unlabelled=texts.csv", "data.validation=random"
    small = "model.pretrained=encoder", "linear.buckets=4096", "training.epochs=1"
    result = run_here("train", "--config", "imdb-pretrained", *set_all(*texts, *small), "--output", "reviews", cwd=cwd).well()
    assert "learning embeddings of n-grams" in result.stderr
    assert json.loads((cwd / "reviews" / "metrics.json").read_text())["best"]["validation_accuracy"] == 1.0


@pytest.mark.usefixtures("untraced")
def test_python_trains_loads_and_pickles(trained: Path, tmp_path: Path) -> None:
    texts, labels = zip(*(line.split(",") for line in ROWS.splitlines()), strict=True)
    model = mha_cli.train("pretrained", texts, labels, output=tmp_path / "run", pretrained=trained / "encoder", trainable_blocks=0)
    answers = model.predict(["the film 7 was superb", "the film 8 was dreadful", ""])
    assert [answer.label for answer in answers[:2]] == ["good", "bad"]
    for other in (mha_cli.load(tmp_path / "run"), pickle.loads(pickle.dumps(model))):
        assert other.predict([answer.text for answer in answers]) == answers


def test_the_page_of_a_server_says_how_much_is_read(trained: Path) -> None:
    page = live_page(read_checkpoint(trained / "tuned" / "checkpoint.keras"))
    assert "at most 37 pieces and 16 words; " in page


def test_settings_that_the_folder_decides_are_refused(mha: Mha) -> None:
    line = refusal(mha(*TRAIN, "--set", "model.embed_dim=64"))
    assert line.endswith("model: embed_dim=64 is decided by the folder that pretrained names; leave it out, or take the recipe pretrained")


@pytest.mark.usefixtures("untraced")
@pytest.mark.filterwarnings("error::FutureWarning")
def test_frozen_weights_take_several_labels(trained: Path, tmp_path: Path) -> None:
    """Without the warnings of scikit-learn, of which each label would give some."""
    cwd = shutil.copytree(trained, tmp_path / "copy")
    args = ("--set", "training.trainable_blocks=0", "--set", "data.label_separator=|", "--output", "several")
    run_here(*TRAIN, *args, cwd=cwd).well()
    kernel = read_checkpoint(cwd / "several" / "checkpoint.keras").weights["classifier/kernel"]
    assert kernel.shape[1] == 2 and np.abs(kernel).max(axis=0).min() > 0
