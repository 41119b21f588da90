"""What a user can get wrong, and what mha answers: the table behind docs/errors.md and tests/cli/test_bad_input.py.

Nothing is imported here beyond the standard library: docs/generate.py reads the table too.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import NamedTuple

WAY_OUT = "give a checkpoint that `mha train` wrote"
MIND = "mind indentation, quotes and colons"
NO_CONFIG = "give the path of a YAML config, or the name of a recipe such as sample"
DOUBLE_QUOTE = 'a quote inside a quoted text is written twice: ""'
CLOSE_QUOTE = f"close it, or read the table with data.quoting=false; {DOUBLE_QUOTE}"
READERS = (
    "predict 'the film' -c",
    "shuffle-test --data sample",
    "compare good.keras --data sample",
    "export --format saved-model --output new",
)
"""Other commands that a checkpoint can be put behind."""

CONFIG = "train --config x.yaml"
SAMPLE = "data: {source: sample}\n"
FILES = "data: {source: files, train: reviews.csv}\n"
EVALUATE = "evaluate good.keras --data reviews.csv --json"
PREDICT = "predict -c good.keras"
FILM = f"{PREDICT} 'the film'"
BATCH = "batch -c good.keras --output labels"
LABEL = "???\t0.*\n"
"""What ``mha predict`` prints for one text with the test's checkpoint, which knows the classes neg and pos."""

INSIDE = "attention 'the film' -c good.keras"
LONG = "a" * 300
"""Longer than the name of a file can be."""

TOO_LONG = "File name too long; choose another name"
A_LOOP = "Too many levels of symbolic links; choose another name"
ROWS = b"text,label\nthe film was superb,pos\ndreadful,neg\n"
SCORED = '*"num_texts": 2*'

NO_ADDRESS = (
    "--host {} --port {}: cannot listen there: {}; give an address of this machine, such as 127.0.0.1, and a free port, or 0 for any"
)
TAKEN_PORT = """python3 -c 'import socket, subprocess, sys
with socket.create_server(("127.0.0.1", 0)) as taken:
    sys.exit(subprocess.call([*sys.argv[1:], "--port", str(taken.getsockname()[1])]))' "$@"
"""


class Case(NamedTuple):
    """A row of the table.

    Args:
        given: what is wrong, in words; no two rows of a section are the same.
        args: arguments of ``mha``, as in a shell.
        message: the line on stderr without ``error:``; … stands for anything.
        code: exit code.
        files: what to put into the current folder beside what is always there.
        stdin: what comes in.
        env: changes of the environment.
        shell: how a shell starts it, ``"$@"`` being the command; empty to run it in the process of the tests.
        stdout: what comes out; * stands for anything.
        also: other commands that say the same.
    """

    given: str
    args: str
    message: str = ""
    code: int = 2
    files: Mapping[str, str | bytes] = {}
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    shell: str = ""
    stdout: str = ""
    also: tuple[str, ...] = ()


def _config(given: str, text: str | bytes, message: str) -> Case:
    return Case(given, CONFIG, message, files={"x.yaml": text})


def _override(override: str, message: str, given: str = "") -> Case:
    rest = f"--config sample.yaml --set '{override}'"
    return Case(given or f"`--set {override}`", f"train {rest}", message, files={"sample.yaml": SAMPLE}, also=(f"shuffle-test {rest}",))


def _checkpoint(given: str, name: str, message: str) -> Case:
    return Case(given, f"evaluate {name}", f"{name}: {message}", also=tuple(f"{reader} {name}" for reader in READERS))


def _train(given: str, rows: bytes | None, message: str, name: str = "reviews.csv") -> Case:
    files: dict[str, str | bytes] = {"x.yaml": FILES.replace("reviews.csv", name)}
    return Case(given, CONFIG, message, files=files if rows is None else files | {name: rows})


def _evaluate(given: str, rows: bytes, message: str) -> Case:
    return Case(given, EVALUATE, message, files={"reviews.csv": rows})


def _read(given: str, rows: bytes, said: str) -> Case:
    return Case(given, EVALUATE, said, code=0, files={"reviews.csv": rows}, stdout=SCORED)


SECTIONS: dict[str, list[Case]] = {
    "Command line": [
        Case("an unknown command", "nonsense", "No such command 'nonsense'; see `mha --help`"),
        Case("control characters in its name", "'\x1b[31m'", r"No such command '\x1b[31m'; see `mha --help`"),
        Case("an unknown option", "--nonsense", "No such option: --nonsense; see `mha --help`"),
        Case("an unknown option of a command", "evaluate good.keras --jsno", "No such option: --jsno…; see `mha evaluate --help`"),
        Case(
            "a text that begins like an option",
            f"{PREDICT} '--not an option'",
            "No such option: --not an option; put -- before a text that begins with a dash; see `mha predict --help`",
        ),
        Case(
            "an option that is close to another",
            f"{FILM} --jsno",
            "No such option: --jsno…--json…; see `mha predict --help`",
        ),
        Case(
            "a text that begins with a dash",
            f"{PREDICT} '-5 stars'",
            "No such option: -5; put -- before a text that begins with a dash; see `mha predict --help`",
        ),
        *(
            Case(f"`{option}` with an empty value", f"{command} {option} ''", f"{option} is empty; see `mha {command.split()[0]} --help`")
            for command, option in (
                ("train", "--config"),
                ("evaluate good.keras", "--data"),
                ("evaluate good.keras", "--split"),
                ("evaluate good.keras", "--label-column"),
                ("predict 'the film'", "--checkpoint"),
                ("predict", "--input"),
                ("predict 'the film'", "--only"),
                ("predict 'the film'", "--output"),
                ("attention 'the film'", "--png"),
                ("explain 'the film'", "--html"),
                ("heads good.keras", "--plot"),
                ("export good.keras --output x", "--format"),
            )
        ),
        Case("an empty name of a checkpoint", "evaluate ''", "argument 'checkpoint' is empty; see `mha evaluate --help`"),
        Case("`mha train` without a config", "train", "Missing option '--config'; see `mha train --help`"),
        *(
            Case(f"`mha tune` with `--search {search}`", f"tune --config x.yaml --search '{search}'", message, files={"x.yaml": SAMPLE})
            for search, message in (
                (
                    "model.embed_dim",
                    "--search model.embed_dim: not of the form KEY.PATH=VALUES; write for example --search "
                    "training.learning_rate=0.001..0.01 or --search model.embed_dim=32,64,128",
                ),
                ("model.num_head=2,4", "--search: model.num_head is not a setting; did you mean num_heads?"),
                ("model.num_heads=2,3", "--search: model: num_heads=3 does not divide embed_dim=64; take num_heads=2 or 4, or set key_dim"),
                (
                    "text.lowercase=true,false",
                    "--search text.lowercase: no part of a trial; search settings of model and training; --set sets any other",
                ),
                (
                    "training.clip_norm=0.1..1",
                    "--search training.clip_norm=0.1..1: not a range of numbers, with null of the config; name values, with commas between",
                ),
            )
        ),
        Case("an argument too many", "train x.yaml --config x.yaml", "Got unexpected extra argument…(x.yaml); see `mha train --help`"),
        Case(
            "`multi-worker` where nobody names workers",
            f"{CONFIG} --set training.distribution=multi-worker",
            "training.distribution=multi-worker: neither TF_CONFIG nor srun names the workers; see docs/scale.md, or take none",
            files={"x.yaml": SAMPLE},
            env={"TF_CONFIG": ""},
            shell='"$@"',
        ),
        Case(
            "workers without `--output`",
            f"{CONFIG} --set training.distribution=auto",
            "training on several workers needs --output; name the run directory, which the chief writes",
            files={"x.yaml": SAMPLE},
            env={"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'},
            shell='"$@"',
        ),
        Case(
            "`mha shuffle-test` on several workers",
            f"{CONFIG.replace('train', 'shuffle-test')} --set training.distribution=auto",
            "shuffle-test trains in one process, not on several workers; set training.distribution=none",
            files={"x.yaml": SAMPLE},
            env={"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'},
            shell='"$@"',
        ),
        Case(
            "a `TF_CONFIG` without a task",
            f"{CONFIG} --output new --set training.distribution=multi-worker",
            'TF_CONFIG: no \'task\'; it is {"cluster": {"worker": ["HOST:PORT", …]}, "task": {"type": "worker", "index": 0}}',
            files={"x.yaml": SAMPLE},
            env={"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'},
            shell='"$@"',
        ),
        Case(
            "`--resume` without `--output`",
            f"{CONFIG} --resume",
            "--resume needs --output; name the run directory to go on with",
            files={"x.yaml": SAMPLE},
        ),
        Case(
            "`--data` with the name of a data set alone",
            "evaluate good.keras --data imdb_reviews",
            "--data imdb_reviews: no such file or folder; check the path; for TensorFlow Datasets write tfds:imdb_reviews",
        ),
        Case("an option without its value", f"{FILM} --output", "Option '--output' requires an argument; see `mha predict --help`"),
        Case("a flag with a value", f"{FILM} --json=true", "Option '--json' does not take a value; see `mha predict --help`"),
        Case(
            "`--data tfds:` without a name",
            "evaluate good.keras --data tfds:",
            "--data: data.name is ''; string should have at least 1 character",
        ),
        Case("`mha evaluate` without a checkpoint", "evaluate", "Missing argument 'checkpoint'; see `mha evaluate --help`"),
        Case(
            "`mha shuffle-test` with neither checkpoint nor config",
            "shuffle-test",
            "shuffle-test takes either checkpoints or --config; see `mha shuffle-test --help` for examples",
        ),
        Case(
            "`mha compare` with a single checkpoint",
            "compare good.keras --data sample",
            "compare takes two checkpoints or more, each of them once; see `mha compare --help` for examples",
        ),
        Case(
            "`mha compare` with the same one twice",
            "compare good.keras ./good.keras --data sample",
            "compare takes two checkpoints or more, each of them once; see `mha compare --help` for examples",
        ),
        Case(
            "a number out of range",
            "shuffle-test good.keras --shuffles 0",
            "Invalid value for '--shuffles' / '-n': …0…; see `mha shuffle-test --help`",
        ),
        Case(
            "a word where a number belongs",
            "shuffle-test good.keras --shuffles many",
            "Invalid value for '--shuffles' / '-n': …'many'…; see `mha shuffle-test --help`",
        ),
        Case("a negative number of texts", "shuffle-test good.keras --max-texts -1", "Invalid value for '--max-texts': …-1…"),
        Case("a negative seed", "shuffle-test good.keras --seed -1", "Invalid value for '--seed': …-1…"),
        Case(
            "a seed that is no number",
            "shuffle-test good.keras --seed x",
            "Invalid value for '--seed': …'x'…; see `mha shuffle-test --help`",
        ),
        Case("control characters where a number belongs", f"{PREDICT} --workers '\x1b[31m'", r"Invalid value for '--workers': …\x1b[31m…"),
        Case(
            "a word that is none of the choices", f"{PREDICT} --format xml", "Invalid value for '--format': 'xml' is not one of 'lines', …"
        ),
        Case(
            "bfloat16 of an engine that does not have it",
            f"{FILM} --precision bfloat16",
            "--precision bfloat16 goes with --engine openvino; give both, or neither",
            also=(f"{FILM} --precision bfloat16 --engine numpy",),
        ),
        Case("a threshold above 1", f"{PREDICT} --threshold 2", "Invalid value for '--threshold': …2…"),
        *(
            Case(
                f"`--find-threshold {target}`",
                f"evaluate good.keras --find-threshold {target}",
                f"--find-threshold {target}: names no precision or recall; write precision=0.95 or recall=0.9",
            )
            for target in ("precision", "accuracy=0.9", "precision=95", "recall=nan", "recall=0")
        ),
        Case(
            "a checkpoint to write without `--find-threshold`",
            "evaluate good.keras --output new.keras",
            "--output goes with --find-threshold; leave it out",
        ),
        Case(
            "a checkpoint to write in place of another file",
            "evaluate good.keras --find-threshold recall=0.9 --output reviews.csv",
            "--output reviews.csv: exists; choose another name, or remove it",
            files={"reviews.csv": ROWS},
        ),
        Case(
            "a checkpoint to write where no folder is",
            "evaluate good.keras --find-threshold recall=0.9 --output new/new.keras",
            "--output new/new.keras: its folder does not exist; make it first",
        ),
        Case(
            "texts and `--input` at once",
            f"{PREDICT} -i x 'the film'",
            "predict takes either texts or --input, not both; leave one of them out",
        ),
        Case(
            "a text and `--input` at once, where one text is looked into",
            "explain -c good.keras -i x 'the film'",
            "… takes either a text or --input, not both; leave one of them out",
            also=("attention -c good.keras -i x -",),
        ),
        Case(
            "`--record` with a text on the command line",
            "explain -c good.keras 'the film' --record 2",
            "--record goes with --input and standard input; leave it out",
        ),
        Case(
            "a checkpoint as a text",
            "predict good.keras",
            "good.keras: a model, not a text; `-c good.keras` answers with it",
            also=("explain good.keras", "attention good.keras", "predict 'the film' good.keras"),
        ),
        Case(
            "a run directory as a text",
            "predict x",
            "x: a model, not a text; `-c x` answers with it",
            files={"x/checkpoint.keras": b""},
            also=("explain x", "attention x"),
        ),
        Case(
            "an output of a kind that mha does not write",
            f"{FILM} -o labels.xlsx",
            "--output labels.…: mha writes no such files; name a .csv file, which spreadsheet programs open, or …",
            also=(
                f"{FILM} -o labels.csv.zip",
                f"{FILM} -o labels.parquet.gz",
                f"{FILM} --only pos -o labels.ods",
                f"{FILM} -o labels.ft",
            ),
        ),
        Case(
            "`--json` for a file of another name",
            f"{FILM} --json -o labels.csv",
            "--json contradicts --output labels.…; leave --json out, or name a .jsonl file",
            also=(f"{FILM} --json -o labels.TSV.gz", f"{FILM} --json -o labels.parquet --only pos"),
        ),
        Case(
            "`--only`, which writes records, for a file of another name",
            f"{PREDICT} -i x.jsonl --only pos -o x.csv",
            "--output x.csv: --only writes records as they came, here JSON lines; name a file of that format, or add --field",
            also=(f"{PREDICT} -i x.parquet --only pos -o x.csv",),
        ),
        *(
            Case(f"`mha {args.replace('good.keras', 'CHECKPOINT')}`", args, message, files={"x.csv": ROWS, "x.yaml": SAMPLE})
            for args, message in (
                ("predict -c good.keras film --format csv --no-quoting", "--format and --no-quoting go with --input and standard input; …"),
                ("predict -c good.keras film --field id", '--field id: arguments: plain lines have only the column "text"; …'),
                ("predict -c good.keras -i x.csv --field id", 'x.csv:1: no column "id" among text, label; set --field'),
                ("predict -c good.keras film --quiet", "--quiet goes with --only; leave it out"),
                ("predict -c good.keras film --quiet --only pos -o x", "--quiet prints nothing; leave --output out"),
                ("predict -c good.keras film --only poss", "--only poss: no class of the model; did you mean pos?"),
                ("predict -c good.keras film --threshold nan", "Invalid value for '--threshold': …"),
                ("predict -c good.keras film --top-k 0", "--top-k 0: neither a number of classes nor all; give for example 3, or all"),
                ("predict -c good.keras film --top-k every", "--top-k every: neither a number of classes nor all; …"),
                ("evaluate good.keras --data sample --label-column x", "--label-column goes with files, not with sample; leave it out"),
                ("evaluate good.keras --data sample --split tset", "the sample reviews have no split 'tset'; did you mean test?"),
                (
                    "evaluate good.keras --data mine",
                    "mine: no sub-folders; give a folder with one sub-folder a class, each holding .txt files",
                ),
                ("data x.csv --set data.train=y", "--set data.train goes with a config, not with files; …"),
                (
                    "heads good.keras --prune 1",
                    "--prune and --output go together; give the number of heads to remove and the file to write",
                ),
                ("heads good.keras --retrain 1", "--retrain goes with --prune; leave it out"),
                ("heads good.keras --prune 4 -o x", "--prune 4: the model has …; at most … can be removed, since every block keeps one"),
                ("heads good.keras --prune 0 -o x", "Invalid value for '--prune': …"),
                ("heads good.keras --plot x.gif", "--plot x.gif: unknown kind of picture; end the name in .png, .svg, .pdf"),
                ("attention -c good.keras ''", "the text has no words; give a text with at least one word"),
                ("explain -c good.keras '<br /> _'", "the text has no words; give a text with at least one word"),
                ("attention -c good.keras film --block 1", "there is no block 1; the model has blocks 0 to 0"),
                ("attention -c good.keras film --head 2 --png a.png --html a.html", "there is no head 2 in block 0; it has heads 0 to 1"),
                ("attention -c good.keras film --png x/heads.png", "--png x/heads.png: its folder does not exist; make it first"),
                ("explain -c good.keras film --html x/why.html", "--html x/why.html: its folder does not exist; make it first"),
                ("heads x.csv", "x.csv: is data, not a checkpoint; give it with --data x.csv, or to `mha predict` with --input x.csv"),
                ("shuffle-test good.keras text.keras --plot a.png", "text.keras: damaged, or no checkpoint (File is not a zip file); …"),
                ("doctor cut.keras", "cut.keras: damaged, or no checkpoint (File is not a zip file); …"),
                ("shuffle-test good.keras --config x.yaml", "shuffle-test takes either checkpoints or --config, not both; …"),
                ("shuffle-test good.keras --set seed=3 -o x", "--set and --output go with --config; leave them out"),
                ("shuffle-test good.keras --text-column x", "--text-column goes with --data; leave it out"),
                ("shuffle-test --config x.yaml --data sample", "--data goes with checkpoints; leave it out"),
                ("shuffle-test --config x.yaml --output mine", "--output mine: is not empty; choose another folder"),
                ("shuffle-test good.keras --plot x/order.png", "--plot x/order.png: its folder does not exist; make it first"),
                ("export good.keras -f onx -o x", "--format onx: no such format; did you mean onnx?"),
                ("export good.keras -f int8 -o two.keras", "--output two.keras: exists; choose another name, or remove it"),
                ("export good.keras -f int8 -o x/a", "--output x/a: its folder does not exist; make it first"),
                ("export good.keras -f int8 -o x --no-quoting", "--no-quoting goes with --data; leave it out"),
            )
        ),
        Case("`-` and `--input` at once", f"{PREDICT} -i x -", "predict takes either texts or --input, not both; leave one of them out"),
    ],
    "Config": [
        Case(
            "labelled texts in its place",
            "train --config reviews.csv",
            "reviews.csv: labelled texts, not a config; `mha init reviews.csv` writes a config to train on them",
            also=(
                "train reviews.csv",
                "tune reviews.csv --minutes 1",
                "tune --config reviews.csv",
                "shuffle-test --config reviews.csv",
            ),
        ),
        Case("no such file", "train --config nowhere.yaml", f"nowhere.yaml: no such file; {NO_CONFIG}"),
        Case(
            "no such recipe",
            "train --config smaple",
            "--config smaple: no such recipe; choose from book, book-no-positions, imdb, imdb-encoder, imdb-encoder-semi, imdb-fast, "
            "imdb-semi, sample, text, or give the path of a YAML config",
            also=("shuffle-test --config smaple",),
        ),
        Case(
            "the name of a config without `.yaml`",
            "train --config x",
            "--config x: no such recipe; did you mean x.yaml?",
            files={"x.yaml": FILES},
        ),
        Case("a folder", "train --config finished", "finished: Is a directory; give the path of a YAML config that can be read"),
        Case("a file without end", "train --config /dev/zero", "/dev/zero: larger than 100,000 bytes; a config is a short YAML file"),
        Case("a checkpoint", "train --config good.keras", "good.keras: not UTF-8 at byte …; save it as UTF-8"),
        _config("a huge file", b"#" * 100_001, "x.yaml: larger than 100,000 bytes; a config is a short YAML file"),
        _config(
            "a list without end",
            f"model:\n  num_heads: [{'1, ' * 30_000}1]\n",
            "x.yaml:2: more than 2,000 keys and values; a config has less than a hundred settings",
        ),
        Case(
            "a named pipe that nobody writes to",
            CONFIG,
            "x.yaml: a pipe that nothing comes out of; give a file, or write to the pipe first",
            shell='mkfifo x.yaml; "$@"; code=$?; rm x.yaml; exit $code',
        ),
        _config("Latin-1", b"# caf\xe9\n", "x.yaml: not UTF-8 at byte 5; save it as UTF-8"),
        _config("UTF-16", SAMPLE.encode("utf-16"), "x.yaml: not UTF-8 at byte 0; save it as UTF-8"),
        _config(
            "a NUL", "seed: \0\n", f"x.yaml: not valid YAML: unacceptable character #x0000: special characters are not allowed; {MIND}"
        ),
        _config(
            "a bomb of aliases",
            "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
            "x.yaml:1: anchors and aliases (& and *) are not allowed; write the value out",
        ),
        _config("a list that holds itself", "a: &x [*x]\n", "x.yaml:1: anchors and aliases (& and *) are not allowed; write the value out"),
        _config("brackets without end", "[" * 50_000, "x.yaml:1: nested more than 20 deep; a config has two levels"),
        _config(
            "a tag that would run something",
            "seed: !!python/object/apply:os.system ['touch hacked']\n",
            "x.yaml:1: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; write a plain value",
        ),
        _config(
            "another version of YAML",
            "%YAML 1.1\n---\ntext: {lowercase: yes}\n",
            "x.yaml:1: %YAML 1.1 is not read, only YAML 1.2; leave the line out",
        ),
        _config("a version that there is not", "%YAML 1.9\n---\n", "x.yaml:1: %YAML 1.9 is not read, only YAML 1.2; leave the line out"),
        _config(
            "a truth value of YAML 1.1", "text:\n  lowercase: yes\n", "x.yaml:2: text.lowercase is 'yes'; it should be a valid boolean"
        ),
        _config(
            "a key that stands twice",
            "seed: 1\nmodel:\n  dropout: 0\n  dropout: 0\n",
            "x.yaml:4: model.dropout stands twice (first on line 3); keep one of them",
        ),
        _config("a list", "- model\n", "x.yaml: not a mapping of settings; write `section:` lines with `key: value` lines below them"),
        _config(
            "a tab as indentation",
            "model:\n\tnum_heads: 4\n",
            f"x.yaml:2: not valid YAML: found character '\\t' that cannot start any token; {MIND}",
        ),
        _config("an unknown setting", "model:\n  num_head: 4\n", "x.yaml:2: model.num_head is not a setting; did you mean num_heads?"),
        _config(
            "control characters in its name",
            '"\\e[31mred[bold]": 1\n',
            r"x.yaml:1: \x1b[31mred[bold] is not a setting; choose from auto, data, model, seed, text, training",
        ),
        _config(
            "a word where a number belongs",
            "model:\n  num_heads: four\n",
            "x.yaml:2: model.num_heads is 'four'; it should be a valid integer",
        ),
        _config(
            "a number too small", "model:\n  num_heads: 0\n", "x.yaml:2: model.num_heads is 0; it should be greater than or equal to 1"
        ),
        _config(
            "a negative number", "training:\n  epochs: -3\n", "x.yaml:2: training.epochs is -3; it should be greater than or equal to 1"
        ),
        _config(
            "not a number", "training:\n  learning_rate: .nan\n", "x.yaml:2: training.learning_rate is nan; it should be a finite number"
        ),
        _config("infinity", "training:\n  clip_norm: 1e999\n", "x.yaml:2: training.clip_norm is inf; it should be a finite number"),
        _config("a number of 100 digits", f"seed: {'9' * 100}\n", f"x.yaml:1: the number {'9' * 39}… is too large; write a smaller one"),
        _config(
            "settings that do not go together",
            "model:\n  embed_dim: 64\n  num_heads: 7\n",
            "x.yaml:1: model: num_heads=7 does not divide embed_dim=64; take num_heads=4 or 8, or set key_dim",
        ),
        _config(
            "test data named twice",
            "data:\n  source: files\n  train: reviews.csv\n  test: more.csv\n  test_share: 0.2\n",
            "x.yaml:1: data: test and test_share=0.2 both name test data; take test_share=null, or test=null",
        ),
        _config(
            "a model too large",
            "text:\n  vocabulary_size: 10000000\nmodel:\n  embed_dim: 16384\n",
            "x.yaml: the model would have 164,927,930,497 weights (660 GB), more than the 1,000,000,000 allowed; lower "
            "text.vocabulary_size, model.embed_dim, model.num_blocks, model.num_heads or model.feed_forward_dim",
        ),
        _override("model.num_head=4", "--set model.num_head is not a setting; did you mean num_heads?"),
        _override("modle.num_heads=4", "--set modle.num_heads: modle is not a setting; did you mean model?"),
        _override("epochs=4", "--set epochs is not a setting; did you mean training.epochs?"),
        _override("model.embed_dim=[4]", "--set model.embed_dim is [4]; it should be a valid integer"),
        _override("text.vocabulary_size=1e3", "--set text.vocabulary_size is 1000.0; it should be a valid integer"),
        _override("data.train=reviews.csv", "--set data.train is not a setting; it goes with data.source=files"),
        _override("model.num_heads", "--set model.num_heads: not of the form KEY.PATH=VALUE; write for example --set model.num_heads=4"),
        _override("training.learning_rate=inf", "--set training.learning_rate is 'inf'; it should be a valid number"),
    ],
    "Checkpoint": [
        _checkpoint("no such file", "nowhere.keras", f"no such file; {WAY_OUT}"),
        _checkpoint("a text", "text.keras", f"damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
        _checkpoint("an empty file", "empty.keras", f"is empty; {WAY_OUT}"),
        _checkpoint("a folder", "folder.keras", f"is a folder without checkpoint.keras; {WAY_OUT}"),
        _checkpoint("a device", "/dev/null", f"is not a regular file; {WAY_OUT}"),
        _checkpoint("a link that leads to itself", "loop", f"cannot be read: Too many levels of symbolic links; {WAY_OUT}"),
        Case(
            "a name that is too long",
            f"evaluate {LONG}",
            f"…: cannot be read: File name too long; {WAY_OUT}",
            also=tuple(f"{reader} {LONG}" for reader in READERS),
        ),
        _checkpoint("another zip archive", "plain.keras", f"not a checkpoint of mha: has no metadata.json; {WAY_OUT}"),
        _checkpoint(
            "a model that Keras saved",
            "keras.keras",
            f"not a checkpoint of mha: Keras saved it, without mha's settings and vocabulary; {WAY_OUT}",
        ),
        _checkpoint("one with something added", "extra.keras", f"not a checkpoint of mha: has members that do not belong there; {WAY_OUT}"),
        _checkpoint("two in one file", "two.keras", f"is cut off, or holds more than its members one after another; {WAY_OUT}"),
        _checkpoint("one cut short", "cut.keras", f"damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
        _checkpoint(
            "one with a bit flipped", "flipped.keras", f"damaged, or no checkpoint (Bad CRC-32 for file 'model.weights.h5'); {WAY_OUT}"
        ),
        _checkpoint(
            "one with half a character as a class",
            "half.keras",
            rf"mha.json is not valid JSON: 'utf-8' codec can't encode character '\ud800' in position …; {WAY_OUT}",
        ),
        Case(
            "one from elsewhere, without `--data`",
            "evaluate good.keras",
            "good.keras: no config.yaml beside it agrees, so the data that it names is left alone: sample; say with --data what to read",
            also=("heads good.keras", "report good.keras", "shuffle-test good.keras"),
        ),
        _checkpoint("one of a later version", "newer.keras", "has format 4; this version of mha reads format 3; update mha, or train anew"),
    ],
    "Labelled reviews": [
        Case(
            "a set and files",
            "evaluate good.keras --data sample --data reviews.csv",
            "--data sample: goes with no other data; leave the other --data out",
            files={"reviews.csv": ROWS},
        ),
        Case("a path that is too long", f"evaluate good.keras --data {LONG}", "--data …: no such file or folder; …"),
        _train("no such file", None, "reviews.csv: no such file or folder; check the path; relative paths start at the current folder"),
        _train("an empty file", b"", "reviews.csv: the file is empty; write a header line (text,label) and a text a row"),
        _train("a header alone", b"text,label\n", "reviews.csv: a header but no texts; write a text a row below it"),
        _train(
            "no header",
            b"superb,pos\n",
            'reviews.csv:1: the first line names neither "text" nor "label", but superb, pos; '
            "set data.text_column and data.label_column, or add a header line (text,label)",
        ),
        _train(
            "other columns",
            b"docstring,package\nsuperb,numpy\n",
            'reviews.csv:1: the first line names neither "text" nor "label", but docstring, package; '
            "set data.text_column and data.label_column, or add a header line (text,label)",
        ),
        Case(
            "other columns, when scoring",
            f"{EVALUATE} --text-column text",
            'reviews.csv:1: no column "text" among Review text, label; set --text-column',
            files={"reviews.csv": ROWS.replace(b"text", b"Review text", 1)},
        ),
        _read("semicolons", ROWS.replace(b",", b";"), "works"),
        _train(
            "characters after a quoted field",
            b'"text";"label"\n"superb"!;"pos"\n',
            f"reviews.csv:2: ';' expected after '\"'; separate the columns with semicolons, and quote the whole field; {DOUBLE_QUOTE}",
        ),
        Case(
            "a column given by a number that there is not",
            f"{CONFIG} --set data.text_column=1 --set data.label_column=3",
            "reviews.csv:1: no column 3 among 2; count them from 1 (see data.label_column)",
            files={"x.yaml": FILES, "reviews.csv": ROWS},
        ),
        Case(
            "columns given by numbers, and a header",
            f"{CONFIG} --set data.text_column=1 --set data.label_column=2",
            "reviews.csv:1: the first line looks like a header: text, label; "
            "name the columns instead of numbering them (see data.text_column), or take the line out",
            files={"x.yaml": FILES, "reviews.csv": ROWS},
        ),
        Case(
            "no separator that fits best",
            f"{CONFIG} --set data.text_column=1 --set data.label_column=2",
            "reviews.tsv:1: commas and semicolons part every row alike; put a header line first, and name the columns as it does",
            files={"x.yaml": FILES.replace("reviews.csv", "reviews.tsv"), "reviews.tsv": "1,5;fine\n2,5;dull\n"},
        ),
        Case(
            "a pattern that nothing matches",
            f"{CONFIG} --set data.train=part-*.csv",
            "part-*.csv: no file matches; check the pattern; relative paths start at the current folder",
            files={"x.yaml": FILES},
        ),
        Case(
            "texts without labels, for `mha init`",
            "init reviews.txt",
            "reviews.txt: a single column, so there are no labels; put the class of every text beside it, in a table or in JSON, "
            "or before it as __label__CLASS",
            files={"reviews.txt": "A superb film\nA bad film\n"},
        ),
        Case(
            "two columns of one name, for `mha init`",
            "init reviews.csv",
            'reviews.csv:1: the column "text" stands 2 times; rename all but one of them',
            files={"reviews.csv": "text,text,label\nA superb film,x,good\nA bad film,x,bad\nA fine film,x,good\nA dull film,x,bad\n"},
        ),
        Case(
            "a text each class, for `mha init`",
            "init reviews.csv",
            "reviews.csv: 2 of 2 texts have a class of their own; check the label column (in a folder, each .txt file is one text)",
            files={"reviews.csv": "text,label\nsuperb,pos\ndreadful,neg\n"},
        ),
        Case(
            "no column that may be the class, for `mha init`",
            "init reviews.csv",
            "reviews.csv: no column of few classes among id, text; set --label-column",
            files={"reviews.csv": "id,text\n1,superb film\n2,bad film\n3,fine\n"},
        ),
        Case(
            "a config that is there, for `mha init`",
            "init reviews.csv --output x.yaml",
            "x.yaml: exists; name another file with --output, or write over it with --force",
            files={"x.yaml": "", "reviews.csv": ROWS},
        ),
        Case(
            "neither a recipe nor a file, for `mha data`",
            "data imbd",
            "imbd: no such file or folder; check the path; relative paths start at the current folder",
        ),
        Case(
            "a column beside a config, for `mha data`",
            "data x.yaml --label-column stars",
            "--label-column goes with files alone; write --set data.label_column=stars",
            files={"x.yaml": FILES},
        ),
        Case(
            "a config without test data, for `mha shuffle-test`",
            "shuffle-test --config x.yaml",
            "the config names no test data; give --data FILE, or train again with --set data.test_share=0.2",
            files={"x.yaml": FILES, "reviews.csv": ROWS},
        ),
        Case(
            "a split that there is not, for `mha shuffle-test`",
            "shuffle-test --config sample --split tset",
            "the sample reviews have no split 'tset'; did you mean test?",
        ),
        Case(
            "a config among files, for `mha data`",
            "data x.yaml reviews.csv",
            "x.yaml: a config stands alone; name its data in it, or with --set data.train=FILE",
            files={"x.yaml": FILES, "reviews.csv": ROWS},
        ),
        Case(
            "no suspects",
            "data reviews.csv --label-issues 0",
            "Invalid value for '--label-issues': Input should be greater than or equal to 1 (found '0'); see `mha data --help`",
            files={"reviews.csv": ROWS},
        ),
        _train(
            "two labels in a line of fastText's",
            b"__label__a __label__b superb\n",
            "reviews.txt:1: 2 labels: a and b; give every text one class",
            "reviews.txt",
        ),
        _train(
            "a line of fastText's without a label",
            b"__label__a superb\nfine\n",
            "reviews.txt:2: no label; begin the line with __label__ and the name of its class",
            "reviews.txt",
        ),
        _train(
            "Parquet that is none",
            b"text,label\n",
            "reviews.parquet: not a Parquet file, or a damaged one: …; write it again",
            "reviews.parquet",
        ),
        _train(
            "a column missing",
            b"text,lable\nsuperb,1\n",
            'reviews.csv:1: no column "label" among text, lable; did you mean lable? (see data.label_column)',
        ),
        _train(
            "a ragged row",
            b"text,label\nsuperb, moving,pos\n",
            "reviews.csv:2: 3 fields where the header has 2; put a text that holds a comma in double quotes",
        ),
        _train(
            "an unbalanced quote",
            ROWS + b'"no end,pos\nbad,neg\n',
            f"reviews.csv:4: a quote in this row is never closed; {CLOSE_QUOTE}",
        ),
        _train(
            "a row without a class", ROWS + b"fine,\n", "reviews.csv:4: the label is empty; give every text a class, or leave the row out"
        ),
        _train(
            "one class",
            b"text,label\nfine,pos\ngood,pos\n",
            "reviews.csv, split train: every text has the class 'pos'; a classifier needs texts of at least two classes",
        ),
        _train(
            "no words",
            b"text,label\n,a\n,a\n,b\n,b\n",
            "reviews.csv, split train: none of the 4 texts has a word; is the text column the right one?",
        ),
        _train(
            "a label column that is none",
            b"text,label\n" + b"".join(b"%s,%s\n" % (word, word) for word in (b"one", b"two", b"three")),
            "reviews.csv, split train: 3 of 3 texts have a class of their own; "
            "check the label column (in a folder, each .txt file is one text)",
        ),
        _read("UTF-16 with a byte-order mark", ROWS.decode().encode("utf-16"), "works: it is read"),
        _read("line ends of old Macs", ROWS.replace(b"\n", b"\r"), "works: they end lines where no other do"),
        _train(
            "UTF-16 without a byte-order mark",
            ROWS.decode().encode("utf-16-le"),
            "reviews.csv: not UTF-8, but likely UTF-16 without a byte-order mark; add --encoding utf-16-le, or save it as UTF-8",
        ),
        _train(
            "an Excel file named .csv",
            b"PK\x03\x04\x14\0",
            "reviews.csv: a zip file, as are .xlsx, .docx and .keras, not texts; save a table as CSV in UTF-8, or unpack the archive",
        ),
        _train("a packed file", b"BZh91AY&SY", "reviews.csv.bz2: packed with bzip2, not texts; unpack it first, …", "reviews.csv.bz2"),
        _train(
            "invalid UTF-8",
            ROWS + b"caf\xe9,neg\n",
            "reviews.csv:4: not UTF-8: byte 0xE9 at place 4 of the line; save it as UTF-8, or …",
        ),
        _train(
            "a file of unknown kind",
            ROWS,
            "reviews.xlsx: unknown extension .xlsx; give a .csv, .tsv, .txt, …",
            "reviews.xlsx",
        ),
        _train("a file without an extension", ROWS, "reviews: no extension that tells its format; give a .csv, .tsv, .txt, …", "reviews"),
        _train(
            "a JSON list over several lines",
            b'[\n {"text": "a", "label": 1},\n {"text": "b", "label": 0}\n]\n',
            "reviews.json:1: JSON that goes on over further lines; write one JSON object a line, a text each; jq -c '.[]' writes it so",
            "reviews.json",
        ),
        _train(
            "a JSON list in one line",
            b'[{"text": "a", "label": 1}, {"text": "b", "label": 0}]\n',
            "reviews.json:1: a list where a JSON object belongs; write one JSON object a line, a text each; jq -c '.[]' writes it so",
            "reviews.json",
        ),
        _train(
            "a fraction as a label",
            b'{"text": "a", "label": 0.5}\n',
            'reviews.jsonl:1: the label "label" is the fraction 0.5; give every text a class: a string, a whole number, true or false',
            "reviews.jsonl",
        ),
        _train(
            "a text that is null",
            b'{"text": null, "label": 1}\n',
            'reviews.jsonl:1: the text "text" is null; write every text as a string',
            "reviews.jsonl",
        ),
        _train("broken JSON", b'{"text": "a"\n', "reviews.jsonl:1: not JSON: Expecting ',' delimiter at place 13; …", "reviews.jsonl"),
        _train(
            "JSON nested without end",
            b"[" * 200_000,
            "reviews.jsonl:1: JSON with a number too long or brackets too deep; write one JSON object a line, a text each",
            "reviews.jsonl",
        ),
        Case(
            "no file of texts without labels",
            CONFIG,
            "more.txt: no such file or folder; check the path; relative paths start at the current folder",
            files={"x.yaml": FILES.replace("}", ", unlabelled: more.txt}"), "reviews.csv": b"never read"},
        ),
        _evaluate(
            "a class in the test data that the model does not know",
            ROWS + b"fair,neutral\n",
            "…:4: the class is 'neutral'; the model knows neg, pos",
        ),
        _read("a byte-order mark", b"\xef\xbb\xbf" + ROWS, "works: it is dropped"),
        _read("gzip data in a file without `.gz`", gzip.compress(ROWS), "works: it is known by its first bytes"),
        _read("a text of two lines in quotes", ROWS.replace(b"dreadful", b'"dreadful\r\nfilm"'), "works: quotes hold line ends"),
        _read("CRLF line ends", ROWS.replace(b"\n", b"\r\n"), "works: they are line ends"),
        _read("a NUL in a text", ROWS.replace(b"superb", b"su\0perb"), "works: it is read as U+FFFD"),
        _read(
            "a text of 10 MB in one line", ROWS.replace(b"superb", b"superb " * 1_500_000), "works: the text is cut to text.sequence_length"
        ),
        _read("a word of 1 MB", ROWS.replace(b"superb", b"x" * 1_000_000), "works: an unknown word"),
    ],
    "Texts to classify": [
        Case("no such file", f"{PREDICT} -i nowhere.txt", "nowhere.txt: cannot be read: No such file or directory; give a file of texts"),
        Case("a folder", f"{PREDICT} -i finished", "finished: cannot be read: Is a directory; give a file of texts"),
        Case("control characters in a file name", f"{PREDICT} -i '\x1b[31m'", r"\x1b[31m: cannot be read: No such file or directory; …"),
        Case(
            "standard input that is closed, and no text",
            "predict -c good.keras",
            "no text: standard input is closed; give one; see `mha … --help`",
            shell='"$@" <&-',
            also=("explain -c good.keras", "attention -c good.keras"),
        ),
        Case(
            "standard input that is closed, asked for with `-`",
            f"{PREDICT} -",
            "standard input: cannot be read: Bad file descriptor; give a file of texts",
            shell='"$@" <&-',
        ),
        Case(
            "standard input that is a folder",
            PREDICT,
            "Fatal Python error: init_sys_streams: <stdin> is a directory, …",
            1,
            shell='"$@" < finished',
        ),
        Case("nothing on standard input", PREDICT, "works: nothing comes out", 0, shell='"$@"'),
        Case(
            "standard input that is a picture",
            PREDICT,
            "standard input: a PNG picture, not texts; save the texts as CSV in UTF-8",
            stdin=b"\x89PNG\r\n\x1a\n\0",
            shell='"$@"',
        ),
        Case(
            "Parquet on standard input",
            PREDICT,
            "standard input: Parquet, not texts; add --format parquet, or name it .parquet",
            stdin=b"PAR1\x15\x04",
            shell='"$@"',
        ),
        Case(
            "an encoding that there is not", f"{PREDICT} --encoding latin9000", "--encoding latin9000: no such encoding; name one such as …"
        ),
        Case(
            "standard input that is no text",
            PREDICT,
            "standard input:1: not UTF-8: byte 0x80 at place 1 of the line; such bytes are read as U+FFFD; save it as UTF-8…",
            0,
            stdin=bytes(range(128, 254)) + b"\0\n",
            shell='"$@"',
            stdout=LABEL,
        ),
        Case(
            "gzip data cut short",
            PREDICT,
            "standard input: the gzip data is cut short or damaged; copy or compress the file again",
            stdin=b"\x1f\x8b\x08\0\0\0\0\0",
            shell='"$@"',
        ),
        Case(
            "a line of 10 MB",
            PREDICT,
            "works: the text is cut to text.sequence_length",
            0,
            stdin=b"superb " * 1_500_000,
            shell='"$@"',
            stdout=LABEL,
        ),
        Case("a word of 1 MB", PREDICT, "works: an unknown word", 0, stdin=b"x" * 1_000_000, shell='"$@"', stdout=LABEL),
        Case(
            "a ragged row",
            f"{PREDICT} -i x.csv",
            "x.csv:2: 2 fields where the header has 1; put a text that holds a comma in double quotes",
            files={"x.csv": "text\na,b\n"},
        ),
        Case(
            "semicolons in a CSV file",
            f"{PREDICT} -i x.csv",
            "works",
            0,
            files={"x.csv": "id;text\n1;superb\n"},
            stdout=LABEL,
        ),
        Case("a pattern that nothing matches", f"{PREDICT} -i 'part-*.csv'", "part-*.csv: no file matches; …"),
    ],
    "Archives to classify": [
        Case("no folder to write to", "batch file", "Missing option '--output' / '-o'; see `mha batch --help`"),
        Case("no such file", f"{BATCH} nowhere", "nowhere: no such file or folder; check the path"),
        Case(
            "a pattern that matches nothing",
            f"{BATCH} '*.xyz'",
            "*.xyz: no file matches; check the pattern; relative paths start at the current folder",
        ),
        Case(
            "a folder without texts",
            f"{BATCH} pictures",
            "pictures: no file of texts in it; its files need one of .csv, …, or --format",
            files={"pictures/a.png": b"\x89PNG"},
        ),
        Case(
            "a share that is none",
            f"{BATCH} mine --shard 9/8",
            "--shard 9/8: is not i/n with i from 1 to n; write 3/8 for the third of eight",
        ),
        Case(
            "a share on a cluster",
            f"{BATCH} mine --address auto --shard 1/1",
            "batch takes either --shard or --address, not both; leave one of them out",
        ),
        Case("a column of plain lines", f"{BATCH} mine --text-column review", "--text-column review: plain lines have no columns; …"),
        Case(
            "a file to write to",
            f"{BATCH} mine --output file",
            "--output …/file: File exists; name a folder that is there, or that can be made",
        ),
    ],
    "A model to serve": [
        Case(
            "a checkpoint that is none", "serve -c text.keras", f"text.keras: damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"
        ),
        Case(
            "an address that is not of this machine",
            "serve -c good.keras --host 192.0.2.1 --port 0",
            NO_ADDRESS.format("192.0.2.1", "…", "Cannot assign requested address"),
        ),
        Case("a host that is none", "serve -c good.keras --host 'no host'", NO_ADDRESS.format("no host", "8000", "…")),
        Case(
            "a port that another program has",
            "serve -c good.keras",
            NO_ADDRESS.format("127.0.0.1", "…", "Address already in use"),
            shell=TAKEN_PORT,
        ),
        Case(
            "a port that is none",
            "serve --port 65536",
            "Invalid value for '--port' / '-p': Input should be less than or equal to 65535 (found '65536'); see `mha serve --help`",
        ),
    ],
    "A text to look into": [
        Case(
            "more than one text in a table",
            "explain -c good.keras -i x.csv",
            "x.csv: holds more than one text; choose one with --record N, its id in `mha predict --json`",
            files={"x.csv": "text\nthe film\nsuperb\n"},
            also=("attention -c good.keras -i x.csv",),
        ),
        Case("none in it", "explain -c good.keras -i x.csv", "x.csv: holds no text; give one that does", files={"x.csv": "text\n"}),
        Case(
            "a `--record` that there is not",
            "explain -c good.keras -i x.txt --record 3",
            "--record 3: x.txt has 2 texts; count them from 1",
            files={"x.txt": "the film\nsuperb\n"},
            also=("attention -c good.keras -i x.txt --record 3 --format lines",),
        ),
        Case(
            "nothing on standard input, where one text is looked into",
            "explain -c good.keras",
            "the text has no words; give a text with at least one word",
            shell='"$@"',
        ),
        Case(
            "lines without end",
            "explain -c good.keras -",
            "standard input: more than 4,000,000 characters in one text; choose one line with --record N",
            shell=f'yes {"superb" * 1000} | "$@"',
        ),
    ],
    "Output": [
        *(
            Case(given, f"{CONFIG} --output {name}", f"--output {name}: {message}", files={"x.yaml": SAMPLE})
            for given, name, message in (
                ("a finished run", "finished", "holds a finished run; choose another folder, or remove this one"),
                ("an unfinished run", "unfinished", "holds an unfinished run; add --resume to go on with it, or choose another folder"),
                ("a folder with other things", "mine", "is not empty; choose another folder"),
                ("a file where a folder belongs", "file", "is a file; choose another folder"),
                ("the current folder", ".", "is not empty; choose another folder"),
                ("a folder that cannot be made", "/proc/x", "cannot be made: No such file or directory; choose another folder"),
                ("a folder below a file", "file/x", "…; choose …"),
            )
        ),
        Case(
            "answers into a folder that is not there",
            f"{FILM} -o nowhere/x",
            "nowhere/x: cannot be written: No such file or directory; choose a folder that exists and can be written to",
        ),
        Case("answers into a folder", f"{FILM} -o finished", "finished: …; choose another file"),
        Case(
            "answers where nothing can be written",
            f"{FILM} -o /proc/x",
            "/proc/x: cannot be written: No such file or directory; choose a folder that exists and can be written to",
        ),
        Case(
            "answers into a full device",
            f"{FILM} -o /dev/full",
            "/dev/full: cannot be written: No space left on device; choose another file",
            1,
        ),
        Case("answers into a name that is too long", f"{FILM} -o {LONG}", f"…: cannot be written: {TOO_LONG}"),
        Case("answers into a link that leads to itself", f"{FILM} -o loop", f"loop: cannot be written: {A_LOOP}"),
        Case("a page into a name that is too long", f"{INSIDE} --html {LONG}", f"--html …: {TOO_LONG}"),
        Case("a page into a link that leads to itself", f"{INSIDE} --html loop", f"--html loop: {A_LOOP}"),
        Case(
            "a page into a folder",
            f"{INSIDE} --html finished",
            "--html finished: is a folder; give the name of a file",
            also=("explain 'the film' -c good.keras --html finished",),
        ),
        Case(
            "a picture into a name that is too long",
            f"{INSIDE} --png {LONG}.png",
            f"--png …: {TOO_LONG}",
            also=(f"{INSIDE} --png {LONG}/x.png",),
        ),
        Case("a picture into a link that leads to itself", f"{INSIDE} --png loop.png", f"--png loop.png: {A_LOOP}"),
        Case(
            "a plot into a name that is too long",
            f"heads good.keras --plot {LONG}.png",
            f"--plot …: {TOO_LONG}",
            also=(f"shuffle-test good.keras --plot {LONG}.png", f"compare good.keras two.keras --plot {LONG}.png"),
        ),
        Case(
            "a report into a folder that does not exist",
            "report good.keras --data sample --output nowhere/report.html",
            "--output nowhere/report.html: its folder does not exist; make it first",
        ),
        Case(
            "a report on a run whose `history.jsonl` is none",
            "report tried --data sample",
            "tried/history.jsonl: no history of a training that can be read; remove it, or put the one of this run there",
            files={"tried/history.jsonl": '{"epoch": 1}\n'},
        ),
        Case(
            "a checkpoint into a name that is too long",
            f"export good.keras -f int8 -o {LONG}",
            f"--output …: {TOO_LONG}",
            also=(f"heads good.keras --prune 1 -o {LONG}",),
        ),
        Case(
            "a checkpoint into a link that leads to itself",
            "export good.keras -f int8 -o loop",
            "--output loop: exists; choose another name, or remove it",
            also=("heads good.keras --prune 1 -o loop",),
        ),
        Case(
            "a run into a name that is too long",
            f"{CONFIG} --output {LONG}",
            "--output …: cannot be used: File name too long; choose another folder",
            files={"x.yaml": SAMPLE},
        ),
        Case(
            "a run into a link that leads to itself",
            f"{CONFIG} --output loop",
            "--output loop: cannot be used: Too many levels of symbolic links; choose another folder",
            files={"x.yaml": SAMPLE},
        ),
        Case("standard output that is full", FILM, "cannot write the output: No space left on device", 1, shell='"$@" > /dev/full'),
        Case("standard output that is closed", FILM, "works: what comes out is lost", 0, shell='"$@" >&-'),
    ],
    "Environment": [
        Case("no `HOME`", FILM, "works", 0, shell='unset HOME; "$@"', stdout=LABEL),
        Case("a `HOME` that cannot be written to", FILM, "works", 0, env={"HOME": "/proc"}, shell='"$@"', stdout=LABEL),
        Case("a `TMPDIR` that is not there", FILM, "works", 0, env={"TMPDIR": "/nowhere"}, shell='"$@"', stdout=LABEL),
        Case(
            "a `TMPDIR` without room for the texts",
            CONFIG,
            "…: File too large; it takes the texts as numbers, twice or three times: make room, or set TMPDIR to another folder",
            1,
            files={"x.yaml": SAMPLE},
            shell='ulimit -f 8; "$@"',
        ),
        Case(
            "`LANG=C`",
            f"{PREDICT} 'é – 映画'",
            "works: data is UTF-8 everywhere",
            0,
            env={"LANG": "C", "LC_ALL": "C"},
            shell='"$@"',
            stdout=LABEL,
        ),
        Case(
            "a `numpy.py` or `yaml.py` in the current folder",
            FILM,
            "works: it is not imported",
            0,
            files=dict.fromkeys(("numpy.py", "yaml.py", "json.py", "mha_cli.py", "typer.py"), "raise SystemExit('hostile')"),
            shell='"$@"',
            stdout=LABEL,
        ),
        Case(
            "settings of Keras that are not ours: `keras.json`, `KERAS_BACKEND`",
            EVALUATE,
            "works: Keras runs on TensorFlow",
            0,
            files={
                "reviews.csv": ROWS,
                ".keras/keras.json": '{"backend": "nonsense", "floatx": "float16", "image_data_format": "channels_first", "epsilon": 0.5}',
            },
            env={"KERAS_BACKEND": "nonsense", "KERAS_HOME": ".keras"},
            shell='"$@"',
            stdout=SCORED,
        ),
        Case(
            "`MHA_CHECKPOINT` that names nothing",
            "predict 'the film'",
            f"nowhere.keras: no such file; {WAY_OUT}",
            env={"MHA_CHECKPOINT": "nowhere.keras"},
            shell='"$@"',
        ),
        Case(
            "`MHA_CHECKPOINT` with a name that is too long",
            "predict 'the film'",
            f"…: cannot be read: File name too long; {WAY_OUT}",
            env={"MHA_CHECKPOINT": LONG},
            shell='"$@"',
        ),
        Case("`mha doctor` with that", "doctor", "works", 0, env={"MHA_CHECKPOINT": LONG}, shell='"$@"', stdout="*"),
        Case(
            "standard output that is not UTF-8 (`LC_ALL=POSIX PYTHONUTF8=0`)",
            f"{INSIDE} --head 0",
            "works: shades and signs have stand-ins, other characters are escaped",
            0,
            env={"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
            shell='"$@"',
            stdout="*the **",
        ),
        Case(
            "`PYTHONIOENCODING=ascii`",
            "explain 'the film é' -c good.keras",
            "works",
            0,
            env={"PYTHONIOENCODING": "ascii"},
            shell='"$@"',
            stdout=r"*\xe9*",
        ),
        Case(
            "a current folder that was removed",
            "doctor",
            "works",
            0,
            shell='mkdir gone; cd gone; rmdir ../gone; "$@"',
            stdout="*runs (does not exist)*",
        ),
        Case("`COLUMNS` that no terminal has", "--help", "works", 0, env={"COLUMNS": "9" * 20}, shell='"$@"', stdout="*Usage: mha*"),
        Case("`COLUMNS=0`", f"{INSIDE} --head 0", "works", 0, env={"COLUMNS": "0"}, shell='"$@"', stdout="*the *"),
        Case(
            "`PYTHONWARNINGS=error`",
            EVALUATE,
            "works",
            0,
            files={"reviews.csv": ROWS},
            env={"PYTHONWARNINGS": "error"},
            shell='"$@"',
            stdout=SCORED,
        ),
    ],
    "Limits": [
        Case("few open files (`ulimit -n 16`)", FILM, "works", 0, shell='ulimit -n 16; "$@"', stdout=LABEL),
        Case(
            "a file larger than allowed (`ulimit -f`)",
            f"{FILM} -o answers.tsv",
            "answers.tsv: cannot be written: File too large; the earlier file, if any, is unchanged",
            1,
            shell='ulimit -f 0; "$@"',
        ),
        Case(
            "standard output larger than allowed (`ulimit -f`)",
            FILM,
            "cannot write the output: File too large",
            1,
            shell='ulimit -f 0; "$@" > finished/out',
        ),
    ],
}
