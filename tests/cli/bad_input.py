"""Bad input and the answers to it: the table behind docs/errors.md and tests/cli/test_bad_input.py.

The unit tests have the variants of a message; this table has one row per message, as a user sees it.
Only the standard library is imported here: docs/generate.py reads the table too.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

WAY_OUT = "give a checkpoint that `mha train` wrote"
READERS = (
    "predict 'the film' -c",
    "shuffle-test --data sample",
    "compare good.keras --data sample",
    "export --format saved-model --output new",
)
"""Other commands that a checkpoint can be put behind."""

FILES = "data: {source: files, train: reviews.csv}\n"
ROWS = b"text,label\nthe film was superb,pos\ndreadful,neg\n"
ALWAYS: dict[str, str | bytes] = {"sample.yaml": "data: {source: sample}\n", "mine.yaml": FILES, "reviews.csv": ROWS}
"""Files of every row, beside the checkpoint good.keras with the classes neg and pos; a row may replace them."""

TRAIN = "train --config sample.yaml"
EVALUATE = "evaluate good.keras --data reviews.csv --json"
SCORED = '*"num_texts": 2*'
PREDICT = "predict -c good.keras"
FILM = f"{PREDICT} 'the film'"
LABEL = "???\t0.*\n"  # output of ``mha predict`` for one text

INSIDE = "attention 'the film' -c good.keras"
BATCH = "batch -c good.keras --output labels"
GZIP_MARK = b"\x1f\x8b\x08\0\0\0\0\0"
LONG = "a" * 300  # a name longer than the name of a file can be

WORKERS = {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'}
TAKEN_PORT = """python3 -c 'import socket, subprocess, sys
with socket.create_server(("127.0.0.1", 0)) as taken:
    sys.exit(subprocess.call([*sys.argv[1:], "--port", str(taken.getsockname()[1])]))' "$@"
"""


class Case(NamedTuple):
    """A row of the table."""

    args: str  # arguments of ``mha``, as in a shell
    message: str = "works"  # line on stderr without ``error:``; … matches anything
    given: str = ""  # what is wrong, in words; by default the command itself
    code: int = 2  # exit code
    files: Mapping[str, str | bytes] = {}  # files to put into the current folder
    stdin: bytes = b""  # data on standard input
    env: Mapping[str, str] = {}  # changes of the environment
    shell: str = ""  # command line that starts it, ``"$@"`` being the command; empty to run it in the process of the tests
    stdout: str = ""  # expected output; * matches anything
    also: tuple[str, ...] = ()  # other commands with the same answer


def _config(given: str, text: str, message: str) -> Case:
    return Case("train --config x.yaml", message, given, files={"x.yaml": text})


def _override(override: str, message: str) -> Case:
    rest = f"--config sample.yaml --set '{override}'"
    return Case(f"train {rest}", message, f"`--set {override}`", also=(f"shuffle-test {rest}",))


def _checkpoint(given: str, name: str, message: str) -> Case:
    return Case(f"evaluate {name}", f"…: {message}", given, also=tuple(f"{reader} {name}" for reader in READERS))


def _train(given: str, rows: bytes, message: str, name: str = "reviews.csv") -> Case:
    return Case("train --config mine.yaml", message, given, files={"mine.yaml": FILES.replace("reviews.csv", name), name: rows})


def _stdin(given: str, data: bytes, message: str, **expected: Any) -> Case:
    return Case(PREDICT, f"standard input{message}", given, stdin=data, **expected)


def _works(given: str, args: str, stdout: str = LABEL, shell: str = '"$@"', **changes: Mapping[str, str]) -> Case:
    return Case(args, given=given, code=0, shell=shell, stdout=stdout, **changes)  # type: ignore[arg-type]


SECTIONS: dict[str, list[Case]] = {
    "Command line": [
        Case("nonsense", "No such command 'nonsense'; see `mha --help`"),
        Case(f"{FILM} --jsno", "No such option: --jsno…--json…; see `mha predict --help`"),
        Case(f"{PREDICT} '-5 stars'", "No such option: -5; put -- before a text that begins with a dash; see `mha predict --help`"),
        Case("train", "no config; give --config RECIPE, or --from RUN to train on"),
        Case("train --config text --from x", "mha train takes either --config or --from, not both; leave one of them out"),
        Case("train --from x", "--from x: no run with config.yaml and checkpoint.keras; give a folder that mha train has written"),
        Case(f"train --from {LONG}", "aaa…; check the path", given="`mha train --from` with a name that is too long"),
        Case("train --config ''", "--config is empty; see `mha train --help`"),
        Case("train --config sample --config imdb", "--config is given 2 times; give it once"),
        Case("init reviews.csv --label-column a --label-column=b", "--label-column is given 2 times; give it once"),
        Case("evaluate", "Missing argument 'checkpoint'; see `mha evaluate --help`"),
        Case("evaluate ''", "argument 'checkpoint' is empty; see `mha evaluate --help`"),
        Case(f"{FILM} --only ''", "--only is empty; see `mha predict --help`"),
        Case("train x.yaml --config sample.yaml", "Got unexpected extra argument…(x.yaml); see `mha train --help`"),
        Case("shuffle-test good.keras --shuffles 0", "Invalid value for '--shuffles' / '-n': …0…; see `mha shuffle-test --help`"),
        Case("shuffle-test good.keras --seed x", "Invalid value for '--seed': …'x'…; see `mha shuffle-test --help`"),
        Case(f"{PREDICT} --workers '\x1b[31m'", r"Invalid value for '--workers': …\x1b[31m…", "control characters instead of a number"),
        Case(f"{PREDICT} --format xml", "Invalid value for '--format': 'xml' is not one of 'lines', …"),
        Case(f"{FILM} --threshold 2", "Invalid value for '--threshold': …", also=(f"{FILM} --threshold nan",)),
        Case(f"{FILM} --top-k 0", "--top-k 0: neither a number of classes nor all; give for example 3, or all"),
        Case(f"{FILM} --only poss", "--only poss: no class of the model; did you mean pos?"),
        Case(f"{FILM} --field id", '--field id: arguments: plain lines have only the column "text"; …'),
        Case(f"{FILM} --format csv --no-quoting", "--format and --no-quoting go with --input and standard input; leave them out"),
        Case(f"{FILM} --quiet", "--quiet goes with --only; leave it out"),
        Case(f"{FILM} --quiet --only pos -o x", "--quiet prints nothing; leave --output out"),
        Case(f"{FILM} --precision bfloat16", "--precision bfloat16 goes with --engine openvino; give both, or neither"),
        Case(f"{PREDICT} -i x -", "predict takes either texts or --input, not both; leave one of them out", also=(f"{FILM} -i x",)),
        Case("explain -c good.keras -i x -", "explain takes either a text or --input, not both; leave one of them out"),
        Case("explain -c good.keras film --record 2", "--record goes with --input and standard input; leave it out"),
        Case(
            "predict good.keras",
            "…: a model, not a text; `-c …` answers with it",
            "a checkpoint or a run directory as a text",
            files={"run/checkpoint.keras": b""},
            also=("explain good.keras", "attention good.keras", "predict 'the film' good.keras", "predict run", "explain run"),
        ),
        Case("attention -c good.keras '<br /> _'", "the text has no words; give a text with at least one word"),
        Case("attention -c good.keras film --block 1", "there is no block 1; the model has blocks 0 to 0"),
        Case("attention -c good.keras film --head 2 --png a.png", "there is no head 2 in block 0; it has heads 0 to 1"),
        Case(
            "evaluate good.keras --find-threshold recall=0",
            "--find-threshold …: names no precision or recall; write precision=0.95 or recall=0.9",
            also=tuple(f"evaluate good.keras --find-threshold {given}" for given in ("precision", "accuracy=0.9", "recall=nan")),
        ),
        Case("evaluate good.keras --output new.keras", "--output goes with --find-threshold; leave it out"),
        Case("evaluate good.keras --data sample --label-column x", "--label-column goes with files, not with sample; leave it out"),
        Case("evaluate good.keras --data sample --data reviews.csv", "--data sample: goes with no other data; leave the other --data out"),
        Case(
            "evaluate good.keras --data imdb_reviews",
            "--data imdb_reviews: no such file or folder; check the path; for TensorFlow Datasets write tfds:imdb_reviews",
        ),
        Case("evaluate good.keras --data sample --split tset", "the sample reviews have no split 'tset'; did you mean test?"),
        Case(
            "compare good.keras ./good.keras --data sample",
            "compare takes two checkpoints or more, each of them once; see `mha compare --help` for examples",
            also=("compare good.keras --data sample",),
        ),
        Case("shuffle-test", "shuffle-test takes either checkpoints or --config; see `mha shuffle-test --help` for examples"),
        Case(
            "shuffle-test good.keras --config sample", "shuffle-test takes either checkpoints or --config, not both; leave one of them out"
        ),
        Case("shuffle-test good.keras --set seed=3 -o x", "--set and --output go with --config; leave them out"),
        Case("shuffle-test good.keras --text-column x", "--text-column goes with --data; leave it out"),
        Case("shuffle-test --config sample --data sample", "--data goes with checkpoints; leave it out"),
        Case("shuffle-test --config sample --split tset", "the sample reviews have no split 'tset'; did you mean test?"),
        Case("heads good.keras --prune 1", "--prune and --output go together; give the number of heads to remove and the file to write"),
        Case("heads good.keras --retrain 1", "--retrain goes with --prune; leave it out"),
        Case("heads good.keras --prune 4 -o x", "--prune 4: the model has …; at most … can be removed, since every block keeps one"),
        Case("export good.keras -f onx -o x", "Invalid value for '--format' / '-f': 'onx' is not one of 'int8', …"),
        Case("export good.keras -f int8 -o x --no-quoting", "--no-quoting goes with --data; leave it out"),
        Case("data sample.yaml reviews.csv", "sample.yaml: a config is read alone; name its data in it, or with --set data.train=FILE"),
        Case("data mine.yaml --label-column x", "--label-column goes with files, not with a config; leave it out"),
        Case("data reviews.csv --set data.train=y", "--set data.train goes with a config, not with files; …"),
        Case(f"{TRAIN} --resume", "--resume needs --output; name the run directory to go on with"),
        Case(
            f"{TRAIN} --set training.distribution=auto",
            "training on several workers needs --output; name the run directory, which the chief writes",
            "several workers, and no `--output`",
            env=WORKERS,
        ),
        Case(
            "shuffle-test --config sample.yaml --set training.distribution=auto",
            "… trains in one process, not on several workers; set training.distribution=none",
            "`mha shuffle-test` on several workers",
            env=WORKERS,
        ),
    ],
    "Config": [
        Case(
            "train --config reviews.csv",
            "reviews.csv: labelled texts, not a config; `mha init reviews.csv` writes a config to train on them",
            also=("train reviews.csv", "shuffle-test --config reviews.csv"),
        ),
        Case("train --config x.yaml", "x.yaml: no such file; give the path of a YAML config, or the name of a recipe such as sample"),
        Case("train --config x", "x: no such recipe; did you mean x.yaml?", files={"x.yaml": FILES}),
        Case(
            "train --config smaple",
            "smaple: no such recipe; choose from book, book-no-positions, imdb, imdb-encoder, imdb-encoder-semi, imdb-fast, "
            "imdb-pretrained, imdb-semi, pretrained, sample, text, or give the path of a YAML config",
            also=("shuffle-test --config smaple",),
        ),
        Case("train --config finished", "finished: Is a directory; give the path of a YAML config, or the name of a recipe such as sample"),
        Case("train --config good.keras", "good.keras: not UTF-8 at byte …; save it as UTF-8"),
        Case("train --config /dev/zero", "/dev/zero: larger than 100,000 bytes; a config is a short YAML file"),
        _config(
            "a tag that would run something",
            "seed: !!python/object/apply:os.system ['touch hacked']\n",
            "x.yaml:1: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; write a plain value",
        ),
        _config("a bomb of aliases", "a: &a [x, x]\nb: &b [*a, *a]\n", "x.yaml:1: anchors and aliases (& and *) are not allowed; …"),
        _config(
            "a tab as indentation",
            "model:\n\tnum_heads: 4\n",
            "x.yaml:2: not valid YAML: found character '\\t' that cannot start any token; mind indentation, quotes and colons",
        ),
        _config("an unknown setting", "model:\n  num_head: 4\n", "x.yaml:2: model.num_head is not a setting; did you mean num_heads?"),
        _config("a wrong type", "model:\n  num_heads: four\n", "x.yaml:2: model.num_heads is 'four'; it should be a valid integer"),
        _config(
            "a number too small", "training:\n  epochs: -3\n", "x.yaml:2: training.epochs is -3; it should be greater than or equal to 1"
        ),
        _config("a key given twice", "seed: 1\nseed: 2\n", "x.yaml:2: seed is set twice (first on line 1); keep one of them"),
        _config(
            "settings that do not go together",
            "model:\n  embed_dim: 64\n  num_heads: 7\n",
            "x.yaml:1: model: num_heads=7 does not divide embed_dim=64; take num_heads=4 or 8, or set key_dim",
        ),
        _config(
            "test data named twice",
            FILES.replace("}", ", test: more.csv, test_share: 0.2}"),
            "x.yaml:1: data.test and data.test_share=0.2 both name test data; take data.test_share=null, or data.test=null",
        ),
        _config(
            "a model too large",
            "text:\n  vocabulary_size: 10000000\nmodel:\n  embed_dim: 16384\n",
            "x.yaml: the model would have 164,927,930,497 weights (660 GB), more than the 1,000,000,000 allowed; lower "
            "text.vocabulary_size, model.embed_dim, model.num_blocks, model.num_heads or model.feed_forward_dim",
        ),
        _override("modle.num_heads=4", "--set modle.num_heads: modle is not a setting; did you mean model?"),
        _override("epochs=4", "--set epochs is not a setting; did you mean training.epochs?"),
        _override("model.embed_dim=[4]", "--set model.embed_dim is [4]; it should be a valid integer"),
        _override("data.train=reviews.csv", "--set data.train is not a setting; it goes with data.source=files"),
        _override("model.num_heads", "--set model.num_heads: not of the form KEY.PATH=VALUE; write for example --set model.num_heads=4"),
    ],
    "Checkpoint": [
        _checkpoint("no such file", "nowhere.keras", f"no such file; {WAY_OUT}"),
        _checkpoint("another file", "reviews.keras", f"damaged, or no checkpoint (File is not a zip file); {WAY_OUT}"),
        _checkpoint("a folder without a checkpoint", "mine", f"is a folder without checkpoint.keras; {WAY_OUT}"),
        _checkpoint("a device", "/dev/null", f"is not a regular file; {WAY_OUT}"),
        _checkpoint("a link to itself", "loop", f"cannot be read: Too many levels of symbolic links; {WAY_OUT}"),
        _checkpoint("a name that is too long", LONG, f"cannot be read: File name too long; {WAY_OUT}"),
        _checkpoint("a later version", "newer.keras", "has format 4; this version of mha reads format 3; update mha, or train anew"),
        Case("heads reviews.csv", "reviews.csv: is data, not a checkpoint; give it with --data reviews.csv, or to `mha predict` with …"),
        Case(
            "evaluate good.keras",
            "good.keras: no config.yaml beside it agrees, so the data that it names is left alone: sample; say with --data what to read",
            "a checkpoint from elsewhere, without `--data`",
            also=("heads good.keras", "report good.keras", "shuffle-test good.keras"),
        ),
    ],
    "Labelled texts": [
        Case(
            "train --config mine.yaml --set data.train=part-*.csv",
            "part-*.csv: no file matches; check the pattern; relative paths start at the current folder",
        ),
        Case("data imbd", "imbd: no such file or folder; check the path; relative paths start at the current folder"),
        _train(
            "no header",
            b"superb,pos\n",
            'reviews.csv:1: the first line names neither "text" nor "label", but superb, pos; '
            "set data.text_column and data.label_column, or add a header line (text,label)",
        ),
        _train("a header alone", b"text,label\n", "reviews.csv: a header but no texts; write one text per row below it"),
        _train(
            "a column missing",
            b"text,lable\nsuperb,1\n",
            'reviews.csv:1: no column "label" among text, lable; did you mean lable? (see data.label_column)',
        ),
        Case(
            "train --config mine.yaml --set data.text_column=1 --set data.label_column=2",
            "reviews.csv:1: the first line looks like a header: text, label; "
            "name the columns instead of numbering them (see data.text_column), or take the line out",
        ),
        _train(
            "a comma too many",
            b"text,label\nsuperb, moving,pos\n",
            "reviews.csv:2: 3 fields where the header has 2; put a text that holds a comma in double quotes",
        ),
        _train(
            "an unbalanced quote",
            ROWS + b'"no end,pos\nbad,neg\n',
            "reviews.csv:4: a quote in this row is never closed; close it, or read the table with data.quoting=false; "
            'a quote inside a quoted text is written twice: ""',
        ),
        _train("no class", ROWS + b"fine,\n", "reviews.csv:4: the label is empty; give every text a class, or leave the row out"),
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
        _train("a wrong encoding", ROWS + b"caf\xe9,neg\n", "reviews.csv:4: not UTF-8: byte 0xE9 at position 4 of the line; save it …"),
        _train("a packed file", b"BZh91AY&SY", "reviews.csv.bz2: packed with bzip2, not texts; unpack it first, …", "reviews.csv.bz2"),
        _train("an unknown kind of file", ROWS, "reviews.doc: unknown extension .doc; give a .csv, .tsv, .txt, …", "reviews.doc"),
        _train("no extension", ROWS, "reviews: no extension that tells its format; give a .csv, .tsv, .txt, …", "reviews"),
        _train("broken JSON", b'{"text": "a"\n', "reviews.jsonl:1: not JSON: Expecting ',' delimiter at position 13; …", "reviews.jsonl"),
        _train(
            "a fraction as a label",
            b'{"text": "a", "label": 0.5}\n',
            'reviews.jsonl:1: the label "label" is the fraction 0.5; give every text a class: a string, a whole number, true or false',
            "reviews.jsonl",
        ),
        Case(
            EVALUATE,
            "…:4: the class is 'neutral'; the model knows neg, pos",
            "a class that the model does not know",
            files={"reviews.csv": ROWS + b"fair,neutral\n"},
            also=(f"{EVALUATE} --split validation",),
        ),
        Case(
            "shuffle-test --config mine.yaml",
            "the config names no test data; give --data FILE, or train again with --set data.test_share=0.2",
        ),
        Case(
            "init reviews.txt",
            "reviews.txt: a single column, so there are no labels; put the class of every text beside it, in a table or in JSON, "
            "or before it as __label__CLASS",
            files={"reviews.txt": "A superb film\nA bad film\n"},
        ),
        Case("init reviews.csv", "reviews.csv: 2 of 2 texts have a class of their own; check the label column"),
        Case(
            "init reviews",
            "reviews: 2 of 2 texts have a class of their own; each .txt file is one text: give every text a file of its own, "
            "or write a table with columns of texts and labels",
            "a folder per class with one file of many lines",
            files={"reviews/pos/all.txt": "A superb film\nA fine film\n", "reviews/neg/all.txt": "A bad film\nA dull film\n"},
        ),
        Case("init reviews.csv --output mine.yaml", "mine.yaml: exists; name another file with --output, or write over it with --force"),
        _works("semicolons and line ends of old Macs", EVALUATE, SCORED, "", files={"reviews.csv": "text;label\rthe film;pos\rbad;neg\r"}),
    ],
    "Texts to classify": [
        Case(f"{PREDICT} -i nowhere.txt", "nowhere.txt: cannot be read: No such file or directory; give a file of texts"),
        Case(f"{PREDICT} -i finished", "finished: cannot be read: Is a directory; give a file of texts"),
        Case(f"{PREDICT} -i 'part-*.csv'", "part-*.csv: no file matches; …"),
        Case(f"{PREDICT} -i reviews.csv --field id", 'reviews.csv:1: no column "id" among text, label; set --field'),
        Case(f"{PREDICT} --encoding latin9000", "--encoding latin9000: no such encoding; name one such as …"),
        Case(
            "predict -c good.keras",
            "no text: standard input is closed; give one; see `mha … --help`",
            "standard input that is closed",
            shell='"$@" <&-',
            also=("explain -c good.keras",),
        ),
        Case(
            f"{PREDICT} -o x -",
            "standard input: cannot be read: Bad file descriptor; give a file of texts",
            "`-` where standard input is closed",
            shell='"$@" <&-',
        ),
        _stdin("a picture on standard input", b"\x89PNG\r\n\x1a\n\0", ": a PNG picture, not texts; save the texts as CSV in UTF-8"),
        _stdin("Parquet on standard input", b"PAR1\x15\x04", ": Parquet, not texts; add --format parquet, or name it .parquet"),
        _stdin("gzip data cut short", GZIP_MARK, ": the gzip data is cut short or damaged; copy or compress the file again"),
        _stdin(
            "bytes that are no text",
            bytes(range(128, 254)) + b"\0\n",
            ":1: not UTF-8: byte 0x80 at position 1 of the line; such bytes are read as U+FFFD; save it as UTF-8…",
            code=0,
            stdout=LABEL,
        ),
        Case(PREDICT, given="a line of 1 MB, cut to `text.sequence_length`", code=0, stdin=b"superb " * 150_000, stdout=LABEL),
        Case(PREDICT, given="a word of 1 MB", code=0, stdin=b"x" * 1_000_000, stdout=LABEL),
        Case(PREDICT, given="nothing on standard input", code=0),
        Case(
            "explain -c good.keras -i reviews.csv",
            "reviews.csv: holds more than one text; choose one with --record N, its id in `mha predict --json`",
            also=("attention -c good.keras -i reviews.csv",),
        ),
        Case("explain -c good.keras -i x.csv", "x.csv: holds no text; give one that does", files={"x.csv": "text\n"}),
        Case("explain -c good.keras -i reviews.csv --record 3", "--record 3: reviews.csv has 2 texts; count them from 1"),
        Case(
            "explain -c good.keras -",
            "standard input: more than 4,000,000 characters in one text; choose one line with --record N",
            "lines without end",
            shell=f'yes {"superb" * 1000} | "$@"',
        ),
    ],
    "Archives to classify": [
        Case("batch file", "Missing option '--output' / '-o'; see `mha batch --help`"),
        Case(f"{BATCH} nowhere", "nowhere: no such file or folder; check the path"),
        Case(f"{BATCH} tried", "tried: no file of texts in it; its files need one of .csv, …, or --format"),
        Case(f"{BATCH} mine --shard 9/8", "--shard 9/8: is not i/n with i from 1 to n; write 3/8 for the third of eight"),
        Case(f"{BATCH} mine --text-column review", "--text-column review: plain lines have no columns; …"),
        Case("batch mine -c good.keras --output file", "--output …/file: File exists; name a folder that is there, or that can be made"),
    ],
    "A model to serve": [
        Case(
            "serve -c good.keras --host 192.0.2.1 --port 0",
            "--host 192.0.2.1 --port …: cannot listen there: Cannot assign requested address; …",
        ),
        Case(
            "serve -c good.keras",
            "--host 127.0.0.1 --port …: cannot listen there: Address already in use; give an address of this machine, such as 127.0.0.1, "
            "and a free port, or 0 for any",
            "a port that another program has",
            shell=TAKEN_PORT,
        ),
    ],
    "Output": [
        *(
            Case(f"{TRAIN} --output {name}", f"{name}: {message}")
            for name, message in (
                ("finished", "holds a finished run; choose another folder, or remove this one"),
                ("unfinished", "holds an unfinished run; add --resume on the command line to go on with it, or choose another folder"),
                (".", "is not empty; choose another folder"),
                ("file", "cannot be used: Not a directory; choose another folder"),
                ("/proc/x", "cannot be made: No such file or directory; choose another folder"),
                ("loop", "cannot be used: Too many levels of symbolic links; choose another folder"),
            )
        ),
        Case("shuffle-test --config sample.yaml --output mine", "mine: is not empty; choose another folder"),
        Case(
            f"{FILM} -o labels.ods",
            "--output labels.…: mha writes no such files; name a .csv, .tsv, .jsonl, .parquet or .xlsx file; .gz …",
            also=tuple(f"{FILM} -o labels.{extension}" for extension in ("csv.zip", "xlsx.gz", "parquet.gz", "ft")),
        ),
        Case(f"{FILM} --json -o labels.csv", "--json contradicts --output labels.csv; leave --json out, or name a .jsonl file"),
        Case(
            f"{PREDICT} -i x.jsonl --only pos -o x.csv",
            "--output x.csv: --only writes records as they came, here in the format jsonl; name a file of that format, or add --field",
        ),
        *(
            Case(f"{FILM} -o {name}", f"…: cannot be written: {message}", given, code)
            for given, name, code, message in (
                ("", "nowhere/x", 2, "No such file or directory; choose a folder that exists and can be written to"),
                ("", "finished", 2, "Is a directory; choose another file"),
                ("", "/dev/full", 1, "No space left on device; choose another file"),
                ("answers into a name that is too long", LONG, 2, "File name too long; choose another name"),
            )
        ),
        Case(
            f"{INSIDE} --html nowhere/page.html",
            "--… nowhere/…: its folder does not exist; make it first",
            "a page, a plot, a report, a config or a checkpoint into a folder that is not there",
            also=(
                f"{INSIDE} --png nowhere/a.png",
                "heads good.keras --plot nowhere/a.png",
                "compare good.keras tried --plot nowhere/a.png",
                "report good.keras --data sample --output nowhere/a.html",
                "init reviews.csv --output nowhere/a.yaml",
                "evaluate good.keras --find-threshold recall=0.9 --output nowhere/a.keras",
                "heads good.keras --prune 1 --output nowhere/a.keras",
                "export good.keras -f int8 -o nowhere/a.keras",
            ),
        ),
        Case(f"{INSIDE} --html finished", "--html finished: is a folder; give the name of a file"),
        Case(f"{INSIDE} --html loop", "--html loop: Too many levels of symbolic links; choose another name"),
        Case(
            f"heads good.keras --plot {LONG}.png",
            "--plot …: File name too long; choose another name",
            "a plot into a name that is too long",
        ),
        Case("heads good.keras --plot x.gif", "--plot x.gif: unknown kind of picture; end the name in .png, .svg, .pdf"),
        Case(
            "evaluate good.keras --find-threshold recall=0.9 --output file",
            "--output …: exists; choose another name, or remove it",
            "a new checkpoint with the name of another file or link",
            also=("export good.keras -f int8 -o file", "export good.keras -f int8 -o loop", "heads good.keras --prune 1 -o loop"),
        ),
        Case(
            "report tried --data sample",
            "tried/history.jsonl: no history of a training that can be read; remove it, or put the one of this run there",
            files={"tried/history.jsonl": '{"epoch": 1}\n'},
        ),
        Case(FILM, "cannot write the output: No space left on device", "standard output that is full", 1, shell='"$@" > /dev/full'),
        _works("standard output that is closed: what comes out is lost", FILM, "", '"$@" >&-'),
        _works("standard input and error that are closed", "predict 'A superb film.'", "pos\t0.*\n", '"$@" <&- 2>&-'),
    ],
    "Environment": [
        _works(
            "no `HOME`, a `TMPDIR` that is not there, few open files (`ulimit -n 16`)",
            FILM,
            shell='unset HOME; ulimit -n 16; "$@"',
            env={"TMPDIR": "/nowhere"},
        ),
        _works(
            "a `numpy.py` or `yaml.py` in the current folder: it is not imported",
            FILM,
            files=dict.fromkeys(("numpy.py", "yaml.py", "json.py", "mha_cli.py", "typer.py"), "raise SystemExit('hostile')"),
        ),
        _works("`LANG=C`: data is UTF-8 everywhere", f"{PREDICT} 'é – 映画'", env={"LANG": "C", "LC_ALL": "C"}),
        _works(
            "standard output that is not UTF-8: other characters are escaped",
            f"{INSIDE} --head 0",
            "*the **",
            env={"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
        ),
        _works(
            "TensorFlow with `HOME=/proc`, a `TMPDIR` that is not there and few open files (`ulimit -n 64`)",
            "explain -c good.keras 'the film' --gradients --json",
            '*"gradients": [*',
            'HOME=/proc; export HOME; ulimit -n 64; "$@"',
            files=dict.fromkeys(("numpy.py", "keras.py", "tensorflow.py"), "raise SystemExit('hostile')"),
            env={"TMPDIR": "/nowhere", "LANG": "C", "LC_ALL": "C"},
        ),
        _works("`PYTHONWARNINGS=error`", EVALUATE, SCORED, env={"PYTHONWARNINGS": "error"}),
        _works("a current folder that was removed", "doctor", "*runs (does not exist)*", 'mkdir gone; cd gone; rmdir ../gone; "$@"'),
        _works("`mha doctor`, and `MHA_CHECKPOINT` with a name that is too long", "doctor", "*", env={"MHA_CHECKPOINT": LONG}),
        Case(
            "predict 'the film'",
            f"nowhere.keras: no such file; {WAY_OUT}",
            "`MHA_CHECKPOINT` that names nothing",
            env={"MHA_CHECKPOINT": "nowhere.keras"},
        ),
        Case(
            f"{FILM} -o answers.tsv",
            "answers.tsv: cannot be written: File too large; the earlier file, if any, is unchanged",
            "a file larger than allowed (`ulimit -f`)",
            1,
            shell='ulimit -f 0; "$@"',
        ),
    ],
}
