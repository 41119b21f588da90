"""`mha init`: the overview of labelled texts, and the config that it writes."""

from pathlib import Path
from typing import Any

from mha_cli.config.loading import load_config
from tests.cli.command import Mha, has_control_characters, run_mha, tree

ROWS = "".join(f'{number};"lamp {number}; broken";{("bad", "good", "so-so")[number % 3]}\n' for number in range(30))


def data_of(config: Path) -> dict[str, Any]:
    return load_config(config).data.model_dump()


def test_a_file_is_looked_at_and_a_config_written(tmp_path: Path) -> None:
    (tmp_path / "lamps.csv").write_text("id;what happened;verdict\n" + ROWS)
    result = run_mha("init", "lamps.csv", cwd=tmp_path).silent()
    for words in (
        "format          │ table, semicolons between the columns, a header line",
        "columns         │ id, what happened, verdict",
        "text column     │ what happened (longest texts, 10 letters on average)",
        "label column    │ verdict (by its name)",
        "texts           │ 30",
        "classes         │ 3: bad (10), good (10), so-so (10)",
        "tokens per text │ 4 (median), 90 % up to 4, longest 4",
        "scripts         │ Latin 100 %",
        "warnings        │ nothing",
    ):
        assert words in result.stdout, result.stdout
    assert result.lines[-2:] == ["written: lamps.yaml", "next: mha train --config lamps.yaml"]
    written = (tmp_path / "lamps.yaml").read_text()
    assert "  text_column: what happened  # longest texts, 10 letters on average\n  label_column: verdict  # by its name\n" in written
    assert data_of(tmp_path / "lamps.yaml").items() >= {"train": "lamps.csv", "text_column": "what happened"}.items()


def test_as_json(tmp_path: Path, mha: Mha) -> None:
    for number in (1, 2):
        (tmp_path / f"lamps-{number}.txt").write_text("".join(f"__label__{number} lamp {other}\n\n" for other in range(3)))
    result = mha("init", "lamps-*.txt", "lamps-1.txt", "--json", "--output", "my lamps.yaml").silent()
    found = result.json
    assert (
        found.items()
        >= {
            "config": "my lamps.yaml",
            "data": ["lamps-*.txt", "lamps-1.txt"],
            "num_files": 3,
            "num_texts": 9,
            "classes": {"1": 6, "2": 3},
            "lengths": {"median": 2, "ninety_percent": 2, "longest": 2},
            "scripts": {"Latin": 1.0},
            "num_repeated": 6,
            "num_two_labels": 3,
            "num_blank": 9,
            "quoting": True,
        }.items()
    )
    assert found["layout"].items() >= {"format": "fastText", "separator": None, "text_column": "text", "label_column": "label"}.items()
    assert data_of(tmp_path / "my lamps.yaml")["train"] == ["lamps-*.txt", "lamps-1.txt"]


def test_no_config_is_overwritten_or_written_for_invalid_data(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "lamps.csv").write_text(ROWS)
    (tmp_path / "fault.csv").write_text(ROWS + "31;fine;\n")
    (tmp_path / "lamps.yaml").write_text("mine")
    before = tree(tmp_path)
    assert mha("init", "lamps.csv").code == 2
    assert mha("init", "fault.csv").code == 2
    assert tree(tmp_path) == before
    assert mha("init", "lamps.csv", "--force").code == 0
    assert load_config(tmp_path / "lamps.yaml").data.source == "files"


def test_control_characters_of_the_data_are_not_printed(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "b\x1b.csv").write_text("t\x1b,label\n" + "".join(f"lamp {number},b\x1b{number % 2}\n" for number in range(8)))
    result = mha("init", "b\x1b.csv", "-o", "x.yaml").well()
    assert not has_control_characters(result.stdout)
    assert data_of(tmp_path / "x.yaml").items() >= {"train": "b\x1b.csv", "text_column": "t\x1b"}.items()


def test_rows_in_an_open_quote(tmp_path: Path, mha: Mha) -> None:
    rows = [f"{('bad', 'good')[number % 2]},lamp {number}" for number in range(30)]
    rows[3], rows[7] = 'good,"dull lamp', 'good,it was 5"'
    (tmp_path / "lamps.csv").write_text("\n".join(["label,text", *rows, ""]))
    said = "lamps.csv:5: a quoted field holds 4 lines that would be rows without the quote; {} reads every line as a row"
    result = mha("init", "lamps.csv")
    assert (result.code, result.stderr) == (0, said.format("--no-quoting") + "\n")
    assert "texts           │ 26" in result.stdout
    assert "warnings        │ lines in quotes that would be rows: 4" in result.stdout
    result = mha("data", "lamps.yaml")
    assert result.stderr == said.format("data.quoting=false") + "\n"
    assert "lines in quotes that would be rows: 4" in result.stdout
    mha("init", "lamps.csv", "--no-quoting", "--force").silent()
    assert data_of(tmp_path / "lamps.yaml")["quoting"] is False
    for arguments in (["lamps.yaml"], ["lamps.csv", "--no-quoting"]):
        found = mha("data", *arguments, "--json")
        assert (found.json["train"]["texts"]["num_texts"], found.stderr) == (30, "")


def test_another_encoding_is_named_once(tmp_path: Path, mha: Mha) -> None:
    rows = "".join(f"café “{number}”,{('bad', 'good')[number % 2]}\n" for number in range(8))
    (tmp_path / "cafés.csv").write_bytes(f"text,label\n{rows}".encode("cp1252"))
    assert mha("init", "cafés.csv", "--encoding", "windows-1252").code == 0
    assert data_of(tmp_path / "cafés.yaml")["encoding"] == "windows-1252"
    found = [mha("data", *given, "--json").json for given in (["cafés.yaml"], ["cafés.csv", "--encoding", "cp1252"])]
    assert [one["train"]["texts"]["scripts"] for one in found] == [{"Latin": 1.0}] * 2


def test_of_many_columns_the_first_are_shown_and_an_unused_name_may_repeat(tmp_path: Path, mha: Mha) -> None:
    more = "".join(f",c{number}" for number in range(500))
    rows = "".join(f"lamp {number} broke at once,{('bad', 'good')[number % 2]}{',1' * 502}\n" for number in range(4))
    (tmp_path / "lamps.csv").write_text(f"text,label,note,note{more}\n{rows}")
    result = mha("init", "lamps.csv").well()
    assert "c25 and 474 more" in result.stdout
