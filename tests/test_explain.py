"""`specgrad explain`: windows, values and slopes, drawn from actual numbers."""

import io
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from specgrad import (
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalMaxPool,
    MaxPool,
    Relu,
    ScalarError,
    ShapeError,
    SpecgradError,
    explain,
)
from specgrad.cli import app, main
from specgrad.conformance.curated import row
from specgrad.drawing.render import drawing
from specgrad.drawing.window import as_text, picture


def run(*words):
    return CliRunner().invoke(app, ["explain", *words], env={"COLUMNS": "200"})


def test_explain_draws_from_actual_numbers(tmp_path):
    drawn, shot = tmp_path / "window.svg", tmp_path / "window.png"
    words = ["MaxPool", "--input", "3,3", "--kernel", "2,2", "--stride", "1", "--values", "1,2,3,4,5,6,7,8,9"]
    result = run(*words, "--at", "1,0", "--svg", str(drawn), "--png", str(shot))
    assert result.exit_code == 0
    assert "[4]  [5]   6" in result.output
    assert "[7] [8*]   9" in result.output
    assert "the output is 8" in result.output
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    assert shot.read_bytes().startswith(b"\x89PNG")
    ceiled = run("AvgPool", "--input", "5", "--kernel", "2", "--ceil-mode", "--at", "2")
    assert "1 tap, 1 real cell;" in ceiled.output
    conv = run("Conv", "--input", "4", "--kernel", "3")
    assert conv.exit_code == 0


def test_explain_draws_every_plane_of_a_volume(tmp_path):
    drawn, shot = tmp_path / "window.svg", tmp_path / "window.png"
    values = ",".join(map(str, range(48)))
    words = ["--input", "3,4,4", "--kernel", "2,2,2", "--values", values, "--svg", str(drawn), "--png", str(shot)]
    result = run("MaxPool", *words)
    assert result.exit_code == 0
    assert "8 taps, 8 real cells; the output is 21" in result.output
    planes = re.findall(r"^plane \[(\d)\]:\n(.*\n.*\n.*\n.*\n)", result.output, re.MULTILINE)
    assert [at for at, _ in planes] == ["0", "1"]
    assert [re.findall(r"\[(\d+)\*?\]", rows) for _, rows in planes] == [["0", "1", "4", "5"], ["16", "17", "20", "21"]]
    assert "[21*]" in planes[1][1]
    svg = drawn.read_text(encoding="utf-8")
    assert (svg.count('class="c'), svg.count("plane ["), svg.count('class="g"')) == (32, 2, 1)
    assert shot.read_bytes().startswith(b"\x89PNG")
    average = run("AvgPool", "--input", "2,1,3,2", "--kernel", "2,1,2,2", "--padding", "1", "--stride", "1")
    assert (
        "8 taps, 0 real cells; the output is 0" in average.output
    )  # the first window of four axes is padding all over
    assert average.output.count("padding:\n") == 2


@pytest.mark.parametrize(
    ("words", "window", "slopes"),
    [
        # a transposed convolution's window: the input cells that contribute to the output, by taps
        # 2 and 0 of [2, 1, -1]
        (
            ["conv_transpose", "--input", "3", "--kernel", "3", "--stride", "2", "--values", "7,8,9", "--at", "0,2"],
            "[7] [8]  9",
            "-1 at 7, 2 at 8",
        ),
        (
            ["ConvTranspose", "--input", "2", "--kernel", "1", "--stride", "2", "--output-padding", "1", "--at", "0,1"],
            "-1    0",
            "none",
        ),
        (
            ["ConvTranspose", "--input", "2,2", "--kernel", "2,2", "--values", "5,6,7,8", "--at", "0,1,2"],
            "5  [6]",
            "1 at 6, -2 at 8",
        ),
        (
            ["linear", "--input", "2,3", "--values", "5,6,7,8,9,10", "--at", "1,0"],
            "[8]  [9] [10]",
            "-1 at 8, 1 at 9, -3 at 10",
        ),
    ],
)
def test_explain_draws_what_a_bilinear_operator_reads(tmp_path, words, window, slopes):
    drawn, shot = tmp_path / "window.svg", tmp_path / "window.png"
    result = run(*words, "--svg", str(drawn), "--png", str(shot))
    assert result.exit_code == 0
    assert window in result.output
    assert f"in the input cells: {slopes}\n" in result.output
    assert drawn.read_text(encoding="utf-8").count('class="g"') == slopes.count(" at ")
    assert shot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ["Nothing"],
        ["MaxPool", "--kernel", "x"],
        ["MaxPool", "--input", "2", "--kernel", "5"],
        ["MaxPool", "--at", "9,9"],
        ["MaxPool", "--values", "1"],
        ["Linear", "--stride", "2"],
        ["ConvTranspose", "--output-padding", "3"],
        ["MaxPool", "--values", "a,b"],
        ["MaxPool", "--input", "-3,3"],
        ["MaxPool", "--input", "1000,1000"],
        ["MaxPool", "--padding", "20000"],
        ["AdaptiveMaxPool", "--output-size", "100000,100000"],
        ["Conv", "--kernel", "20000,20000", "--padding", "10000"],
        ["MaxPool", "--svg", "/no/such/folder/window.svg"],
        ["MaxPool", "--png", "/no/such/folder/window.png"],
        ["SmoothMaxPool", "--beta", "nan"],
        ["AdaptiveMaxPool", "--output-size", "0,1"],
        ["LpPool", "--p", "1"],
    ],
)
def test_explain_refuses_with_2(words):
    assert run(*words).exit_code == 2


@pytest.mark.parametrize(
    "x", [np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), np.array([1j, 2, 3]), np.array(["a", "b"]), {}], ids=repr
)
def test_what_has_no_real_numbers_is_not_drawn(x):
    with pytest.raises(ScalarError, match=r"^explain: operand=.*; (fill the mask first|give an array of floats)"):
        explain(MaxPool((2,)), x)


def test_an_output_cell_is_named_by_integers():
    assert explain(MaxPool((2,)), np.arange(4.0), output=1).output == (1,)
    for cell in ((0.5,), ("0",), "0", (True,), np.nan):
        with pytest.raises(SpecgradError, match=r"^explain: output=.*: must be an integer"):
            explain(MaxPool((2,)), np.arange(4.0), output=cell)


@pytest.mark.parametrize(
    ("op", "cells"),
    [
        (MaxPool((1,), padding=999_999), "the output has 2000000 cells"),
        (MaxPool((1,), stride=999_999, padding=999_999), "the padded input has 2000000 cells"),
        (Conv((999, 2001), padding=2000), "the weight has 1998999 cells"),
    ],
)
def test_what_nobody_reads_is_not_drawn(op, cells):
    x = np.zeros(2) if isinstance(op, MaxPool) else np.zeros((1, 2, 2))
    with pytest.raises(ShapeError) as caught:
        explain(op, x)
    assert str(caught.value).startswith(f"explain: op={op!r}: {cells}, and at most 1048576 are drawn; ")


def test_every_operator_of_windows_is_drawn():
    for name in ("LpPool", "MinPool", "SumPool", "SmoothMaxPool", "AdaptiveAvgPool", "GlobalAvgPool"):
        assert f"{name}(" in run(name).output
    rows = CliRunner().invoke(app, ["explain", "MaxPool", "--input", "2,90"]).output.split("\n")
    assert [len(row.split()) for row in rows[2:4]] == [90, 90]  # a row is a line, however long


def test_pictures_mark_padding_window_and_winner():
    text = as_text(picture(MaxPool((3,), stride=2, padding=1), (row(4, 1, 7),), (0, 0, 0)))
    assert "[·] [4*]  [1]   7    ·" in text
    assert picture(GlobalMaxPool(0), (np.ones(2, np.float32),), (0,)) is None


def test_output_may_go_where_not_all_letters_are_known(monkeypatch):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    monkeypatch.setattr(sys, "argv", ["specgrad", "explain", "AvgPool", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    plain.flush()
    assert (ended.value.code, "Usage" in plain.buffer.getvalue().decode("ascii")) == (0, True)


def test_explain_in_python(tmp_path):
    x = np.array([[1.0, 2.0, 3.0], [4.0, 9.0, 6.0], [7.0, 8.0, 5.0]])
    found = explain(MaxPool((2, 2), stride=1), x, output=(1, 0))
    assert "[4] [9*]" in str(found)
    assert found._repr_svg_() == found.svg()
    for name, start in (("a.svg", b"<svg"), ("a.png", b"\x89PNG")):
        found.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    for wrong in (
        lambda: found.save(tmp_path / "a.txt"),
        lambda: explain(MaxPool((2, 2)), x, output=(1, 0)),
        lambda: explain(MaxPool((2, 2)), x, output=(0,)),
        lambda: explain(Relu(), x),
        lambda: explain(GlobalMaxPool(0), x).svg(),
    ):
        with pytest.raises(SpecgradError, match="explain: "):
            wrong()


def test_both_drawings_have_a_legend_of_what_is_there():
    kinds = {box.kind for box in drawing(explain(MaxPool((2,), padding=1), row(4)[0], output=(0, 0)).picture).boxes}
    for op, words in ((MaxPool((2,), padding=1), {"the winner", "padding"}), (AvgPool((2,)), set())):
        made = drawing(explain(op, row(4, 1, 7)).picture)
        told = {text.text for text in made.texts}
        assert words == told & {"the winner", "padding"}
        assert {box.kind for box in made.boxes if box.legend} == {box.kind for box in made.boxes} - {"o"}
        assert all(0 <= box.x <= box.x + box.side <= made.width for box in made.boxes)
        assert all(text.y <= made.height for text in made.texts)
    assert "p w" in kinds


def test_explain_draws_the_weights_gradient_of_a_convolution():
    x, weight = np.array([[2.0, 0.0, 5.0]]), np.array([[[3.0, 4.0]], [[6.0, 7.0]]])
    found = explain(Conv((2,), padding=1), x, weight, output=(1, 1)).picture
    assert [(s.text, s.read, s.slope) for s in found.weights[0].rows[0]] == [("6", True, 2.0), ("7", True, 0.0)]
    assert found.weights[0].at == (1, 0)
    edge = explain(Conv((2,), padding=1), x, weight, output=(0, 0)).picture
    assert [(s.text, s.read, s.slope) for s in edge.weights[0].rows[0]] == [("3", False, 0.0), ("4", True, 2.0)]
    assert len(explain(ConvTranspose((2, 2, 2)), np.ones((1, 2, 2, 2))).picture.weights) == 2


@pytest.mark.parametrize(
    ("words", "walks"),
    [
        ("MaxPool --input 64,112,112 --kernel 3,3 --stride 2 --padding 1", ["direct", "direct", "winners", "phases"]),
        ("MaxPool --input 4,64,64 --kernel 13,13 --stride 1", ["tiles", "tiles", "winners", "winners"]),
        ("AvgPool --input 8,20,20,20 --kernel 3,3,3 --stride 1", ["direct", "along"] * 3),
        ("AdaptiveAvgPool --input 30,30 --output-size 7,7", ["bins", "bins", "runs"]),
        ("MinPool --input 64,112,112 --kernel 3,3 --stride 2", ["direct", "direct", "winners", "phases"]),
        ("SmoothMaxPool --input 8,8 --kernel 2,2 --beta 2", ["tiles", "weights", "phases"]),
        ("Conv --input 8,8 --kernel 2,2", ["gemm", "gemm", "gemm", "gemm", "weight_gradient"]),
        ("ConvTranspose --input 9,8,7 --weight 8,6,3 --stride 2", ["gemm", "gemm", "gemm", "gemm", "weight_gradient"]),
        ("Conv --input 16,8,12,12 --weight 8,2,3,3 --groups 4", ["gemm", "gemm", "gemm", "gemm", "weight_gradient"]),
        ("Conv --input 32,8,5,5 --weight 9,8,5,5", ["matmul", "matmul", "matmul"]),
        ("ConvTranspose --input 32,8,1,1 --weight 8,9,5,5", ["matmul", "matmul", "matmul"]),
        ("Linear --input 64,100 --weight 90,100", ["matmul", "matmul", "matmul"]),
        ("Linear --input 4,8", ["NumPy", "NumPy", "NumPy"]),
        ("Linear --input 256,512 --weight 3,512", ["matmul", "matmul", "matmul"]),
        ("Conv --input 1,4,1 --weight 4,4,2 --padding 3 --dilation 6", ["gemm", "gemm", "NumPy", "NumPy"]),
    ],
)
def test_explain_says_what_the_engine_chose(words, walks):
    result = run(*words.split(), "--engine")
    assert result.exit_code == 0
    found = [re.split(" {2,}", line)[1].split()[0] for line in result.output.splitlines()[2:]]
    assert found == walks, result.output


def test_explain_says_what_runs_nothing():
    assert "no cells" in run("AvgPool", "--input", "0,64", "--kernel", "2", "--stride", "1", "--engine").output
    assert "no cells" in run("Linear", "--input", "0,64", "--weight", "9,64", "--engine").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("MaxPool --input 2,2 --kernel 5,5 --engine", "the kernel spans 5"),
        ("MaxPool --input 2,2 --weight 2,2 --engine", "max_pool has none"),
        ("MaxPool --input 9,9 --groups 2 --engine", "takes no groups"),
        ("Conv --input 1,1,9,9 --weight 1,1,2,2", "only with --engine"),
        ("Conv --input 1,4,9,9 --weight 4,2,3,3 --engine", "reads 2 channels"),
        ("Linear --input 9,9 --weight 9 --engine", "must have the form"),
    ],
)
def test_bad_shapes_of_a_schedule_are_told(words, told):
    result = run(*words.split())
    assert result.exit_code == 2
    assert told in re.sub(r"[\s│]+", " ", result.output)
