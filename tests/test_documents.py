"""The README and the pages of docs/: their code runs and prints the stated output, links are valid,
figures are those of one file."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import specgrad
from specgrad.conformance import runner
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.subject import load

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def read(page):
    return page.read_text(encoding="utf-8")


def anchor(heading):
    """The name that GitHub and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def test_the_readme_prints_what_it_says(capsys):
    pytest.importorskip("torch")
    pytest.importorskip("z3")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", read(ROOT / "README.md"), re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
        printed = " ".join(capsys.readouterr().out.split())
        promises = re.findall(r"(?:print|prove)\(.*\)  # (.*)", block)
        assert " ".join(promises) in printed
        assert len([line for line in block.splitlines() if line]) <= 8


def test_the_readme_shows_a_real_counterexample():
    shown = re.search(r"```text\n(zero padded.*?)```", read(ROOT / "README.md"), re.DOTALL)[1]
    subject = load(f"{ROOT}/examples/check_wrong.py:subject")
    session = runner.Session(runner.QUICK, claims=("padding",))
    (cell,) = session.one(subject, specgrad.MaxPool, 5)
    found = cell.differences[0]
    said = f"{subject.name}, MaxPool, {CLAIMS[cell.claim].words}: {found.outcome.words}"
    looks_like = f"looks like “{found.reading}”: {found.reading_words}"
    assert all(line.strip() in (said, looks_like, *found.python.splitlines()) for line in shown.splitlines())


def test_the_readme_is_short():
    assert len(read(ROOT / "README.md").splitlines()) <= 150


LONG = {"conformance.md"}
"""A page with quoted messages, each on one line."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in LONG], ids=lambda page: page.name)
def test_lines_of_prose_are_at_most_120_long(page):
    prose = re.sub(r"```.*?```", "", read(page), flags=re.DOTALL).splitlines()
    assert not [
        line for line in prose if len(line) > 120 and not line.lstrip().startswith(("|", "<")) and "-->" not in line
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(read(page))):
        if re.match(r"\w+:", target):
            continue
        path, _, part = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if part:
            assert part in map(anchor, re.findall(r"^#+ (.*)$", read(file), re.MULTILINE)), target


def test_figures_are_those_of_the_file():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    for path, text in figures.made().items():
        assert read(path) == text, "run `make figures`"


SEMANTICS = read(ROOT / "docs" / "semantics.md")
RULES = [
    tuple(cell.strip("` ") for cell in row)
    for row in re.findall(r"^\| (.+?) \| (`.+`) \| (`.+`) \|$", SEMANTICS, re.MULTILINE)
]


@pytest.mark.parametrize(("rule", "call", "gives"), RULES, ids=[f"{i}-{row[0]}" for i, row in enumerate(RULES)])
def test_semantics_row(rule, call, gives):
    names = {}
    exec(re.search(r"```python\n(.*?)```", SEMANTICS, re.DOTALL)[1], names)
    if gives.startswith("error: "):
        with pytest.raises(specgrad.SpecgradError, match=gives.removeprefix("error: ")):
            eval(call, names)
        return
    found, wanted = np.asarray(eval(call, names)), np.asarray(eval(gives, names))
    assert found.shape == wanted.shape
    digits = max((len(part) for part in re.findall(r"\d\.(\d{3,})", gives)), default=None)
    if digits is not None:  # a value with all its digits
        assert np.all(np.abs(found - wanted) <= 0.5 * 10.0**-digits)
    else:
        assert all(a == b or (a != a and b != b) for a, b in zip(found.flat, wanted.flat, strict=True))


ESSAYS = ["how_it_works", "cpu_engine", "start_pytorch", "start_exact", "start_kernel", "ndimage", "dask", "jax"]


NEEDS = {"dask": ("dask", "xarray"), "jax": ("jax",)}


@pytest.mark.parametrize("name", ESSAYS)
def test_code_of_a_page_prints_what_stands_beside_it(name, capsys):
    for library in ("torch", "z3", *NEEDS.get(name, ())):
        pytest.importorskip(library)
    names = {"__name__": name}
    for block in re.findall(r"```python\n(.*?)```", read(ROOT / "docs" / f"{name}.md"), re.DOTALL):
        exec(compile(block, f"{name}.md", "exec"), names)
        promised = re.findall(r"(?:print|prove)\(.*\)  # (.*)|^# (.*)$", block, re.MULTILINE)
        printed = capsys.readouterr().out.split()
        assert not promised or " ".join("".join(line) for line in promised).split() == printed


def test_the_essay_is_short():
    code = "".join(re.findall(r"```python\n(.*?)```", read(ROOT / "docs" / "how_it_works.md"), re.DOTALL))
    assert len([line for line in code.splitlines() if line.strip()]) <= 160
