"""`specgrad certify`: the answers, files and refusals of the command, and its page."""

import gzip
import re
from pathlib import Path

import matplotlib
import numpy as np
import onnx
import pytest
from test_certify import small
from typer.testing import CliRunner

import specgrad as sg
from specgrad import cli
from specgrad.bounds.certificate import Certificate


def written(tmp_path, lower, upper, wanted, function=small):
    model, text = tmp_path / "model.onnx", tmp_path / "property.vnnlib"
    onnx.save(sg.trace(function, (4,)).to_onnx(np.float64), model)
    lines = [f"(declare-const X_{i} Real)" for i in range(4)] + [f"(declare-const Y_{i} Real)" for i in range(2)]
    lines += [f"(assert (>= X_{i} {lower}))(assert (<= X_{i} {upper}))" for i in range(4)]
    text.write_text("\n".join([*lines, wanted]))
    return ["certify", str(model), "--vnnlib", str(text)]


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("(assert (or (and (<= Y_0 -9.0)) (and (<= Y_1 -9.5))))", "unsat"),
        ("(assert (<= Y_0 0.1))(assert (>= Y_0 3.1))", "unsat"),
        ("(assert (>= Y_0 Y_1))", "sat"),
        ("(assert (>= (+ X_0 X_1) 2.5))", "unsat"),
        ("(assert (>= (+ X_0 X_1) 1.5))(assert (>= Y_0 Y_1))", "sat"),
    ],
)
def test_the_command_answers_as_the_competition_asks(tmp_path, wanted, answer):
    out = tmp_path / "certificate.json"
    result = CliRunner().invoke(cli.app, [*written(tmp_path, -1, 1, wanted), "--out", str(out), "--check"])
    assert result.output.split("\n")[0] == answer, result.output
    assert result.exit_code == {"unsat": 0, "sat": 1}[answer]
    certificate = Certificate.load(out)
    certificate.check()
    covered = CliRunner().invoke(cli.app, [*written(tmp_path, -1, 1, wanted), "--covers", "float32"])
    assert covered.output.split("\n")[0] == answer
    if answer == "sat":
        assert "(X_3 " in result.output
        assert "(Y_1 " in result.output


def test_a_strict_property_is_not_met_by_equality(tmp_path):
    """relu(x) < 0 is never true, although 0 is reached; and neither the input nor its copy before
    the output is printed as an output."""
    relu = lambda x: sg.relu(x)[:2]  # noqa: E731
    for wanted, answer in (("(< Y_0 0)", "unknown"), ("(<= Y_0 0)", "sat"), ("(< Y_0 0.01)", "sat")):
        arguments = written(tmp_path, -1, 1, f"(assert {wanted})", relu)
        result = CliRunner().invoke(cli.app, [*arguments, "--timeout", "0.5", "--check"])
        assert result.output.split("\n")[0] == answer, wanted
    arguments = written(tmp_path, -1, 1, "(assert (< X_0 -0.5))(assert (<= Y_0 X_1))", relu)
    result = CliRunner().invoke(cli.app, [*arguments, "--out", str(tmp_path / "strict.json"), "--check"])
    assert result.output.startswith("sat")
    assert "(Y_0 0.0)" in result.output
    assert "Y_2" not in result.output
    Certificate.load(tmp_path / "strict.json").check()
    lowered = (tmp_path / "strict.json").read_text().replace('"at_least"', '"above"')
    assert '"above"' in lowered
    Certificate.from_json(lowered).check()  # a row below its bound is also not above it


def test_the_command_reads_what_the_competition_packs(tmp_path):
    """Models with an open length, and gzip files."""
    _, model, _, text = written(tmp_path, -1, 1, "(assert (<= Y_0 -9.0))")
    proto = onnx.load(model)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "open"
    packed = [Path(f"{name}.gz") for name in (model, text)]
    for name, data in zip(packed, (proto.SerializeToString(), Path(text).read_bytes()), strict=True):
        name.write_bytes(gzip.compress(data))
    out = tmp_path / "packed.json"
    result = CliRunner().invoke(
        cli.app, ["certify", str(packed[0]), "--vnnlib", str(packed[1]), "--out", str(out), "--check"]
    )
    assert result.output.startswith("unsat"), result.output
    Certificate.load(out).check()
    packed[1].write_bytes(b"no gzip")
    result = CliRunner().invoke(cli.app, ["certify", str(packed[0]), "--vnnlib", str(packed[1])])
    assert "cannot be read" in result.output.replace("\n", " ")


def _told(arguments, words):
    """The command refuses with these words, which a frame may break anywhere."""
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert "".join(words.split()) in "".join(result.output.replace("│", "").split())


def test_the_command_refuses_in_words(tmp_path):
    arguments = written(tmp_path, -1, 1, "(assert (<= Y_0 -100))")
    assert CliRunner().invoke(cli.app, [*arguments, "--timeout", "0"]).output.startswith("unknown")
    for wrong in (["certify", str(tmp_path / "none.onnx"), *arguments[2:]], [*arguments[:3], str(tmp_path / "none")]):
        result = CliRunner().invoke(cli.app, wrong)
        assert result.exit_code == 2
        assert "cannot be read" in result.output.replace("\n", " ")
    other = written(tmp_path, -1, 1, "(assert (<= Y_0 1))", lambda x: sg.relu(x)[:3])
    _told(other, "is about 4 input numbers and 2 output numbers, but the model has 4 input numbers and 3 output")
    wrong = written(tmp_path, -1, 1, "(assert (<= Z_0 1))")
    _told(wrong, "property.vnnlib': has a fault: variable='Z_0': is not declared")
    _told(["certify", str(tmp_path / "none.onnx"), *wrong[2:]], "none.onnx': cannot be read")
    arguments = written(tmp_path, -1, 1, "(assert (<= Y_0 -100))")
    for out in (tmp_path, tmp_path / "none" / "certificate.json"):  # before anything is decided
        result = CliRunner().invoke(cli.app, [*arguments, "--out", str(out)])
        assert (result.exit_code, result.stdout) == (2, "")


def test_what_check_cannot_replay_is_said_after_the_answer(tmp_path, monkeypatch):
    arguments = written(tmp_path, -1, 1, "(assert (<= Y_0 -1))", lambda x: sg.sigmoid(x)[:2])
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    result = CliRunner().invoke(cli.app, [*arguments, "--check", "--out", str(tmp_path / "curves.json")])
    assert (result.exit_code, result.stdout) == (3, "unsat\n")
    assert "does not confirm unsat: certificate: operator='sigmoid': has no lines" in result.stderr
    assert Certificate.load(tmp_path / "curves.json").holds
    # overflow in float32
    wide = written(tmp_path, 1, 2, "(assert (<= Y_0 -1))", lambda x: 1 - sg.relu(x * 1e38)[:2] * 1e-50)
    for covers, answer in (("real", ("unsat\n", 0)), ("float32", ("unknown\n", 2))):
        result = CliRunner().invoke(cli.app, [*wide, "--covers", covers, "--check"])
        assert (result.stdout, result.exit_code) == answer


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    matplotlib.use("Agg")
    page = (Path(__file__).parents[1] / "docs" / "certify.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "\nholds\n" in printed
    assert "violated" in printed
    assert (tmp_path / "certify.svg").stat().st_size > 1000
