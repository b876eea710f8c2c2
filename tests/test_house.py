"""Rules of the source tree: imported libraries, layers of imports, and documents that agree with
the code."""

import ast
import doctest
import functools
import re
import runpy
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import specgrad
from specgrad import ranked
from specgrad.ops import pool

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "specgrad"

LAYERS = [
    {"errors", "glossary"},
    {"arguments", "caches", "array_methods"},
    {"sizes"},
    {"geometry", "threads", "memory"},
    {"scalars"},
    {"arithmetic", "tree"},
    {"dispatch"},
    {"operator"},
    {"levels"},
    {"derive"},
    {"ops"},
    {"engines", "autograd", "graph"},
    {"functional", "array_functions"},
    {"conv_functions"},
    {"derivatives"},
    {"ranked"},
    {"torch", "onnx", "jax", "ndimage", "dask"},
    {"bounds", "drawing"},
    {"conformance", "bench"},
    {"prove"},
    {"cli"},
    {"__main__"},
]
"""A package may import from the layers before its own, and from itself."""

HEAVY = [
    "llvmlite",
    "torch",
    "triton",
    "jax",
    "hypothesis",
    "rich",
    "typer",
    "z3",
    "flint",
    "sympy",
    "mpmath",
    "ml_dtypes",
    "matplotlib",
    "scipy",
    "onnx",
    "dask",
    "distributed",
]


ON_FIRST_USE = [f"specgrad.{part}" for part in ("derivatives", "drawing", "graph", "ranked")]


def test_importing_specgrad_loads_nothing_that_many_programs_never_use():
    code = f"import sys, specgrad; print([m for m in {HEAVY + ON_FIRST_USE!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
"""Path by module name."""


@functools.cache
def tree(path):
    """The nodes of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(name):
    """The modules of specgrad that a module imports, also inside functions, without parent packages
    of imported modules."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")] if node.level else []
            base = ".".join(filter(None, base)) or node.module
            for alias in node.names if base in MODULES else ():
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base


def circles(names):
    """Import cycles: lists of modules, each of which imports the next, and the last the first."""
    found, done, way = [], set(), []

    def visit(name):
        if name in way:
            found.append(way[way.index(name) :])
        elif name not in done:
            way.append(name)
            for other in sorted(set(names[name]) - {name}):
                visit(other)
            done.add(way.pop())

    for name in names:
        visit(name)
    return found


def test_no_module_imports_itself_by_way_of_others():
    """The package `specgrad` itself is left out: only outside code imports its public names."""
    assert circles({name: set(imported(name)) - {"specgrad"} for name in MODULES}) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"]}) == [["b", "c"]]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "specgrad"])
def test_imports_run_one_way(name):
    part = name.split(".")[1]
    here = next(i for i, layer in enumerate(LAYERS) if part in layer)
    allowed = {part, "specgrad"}.union(*LAYERS[:here])
    if part == "scalars":
        allowed = {"scalars", "errors", "array_methods"}
    assert {(other.split(".") * 2)[1] for other in imported(name)} <= allowed


def changed_from_outside(tree):
    """Names imported from other packages that a file assigns to, and "numba" for each import of
    Numba."""
    others, found = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            own = {(alias.asname or alias.name).split(".")[0]: alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            own = {alias.asname or alias.name: (node.module or "").split(".")[0] for alias in node.names}
        else:
            continue
        others |= {name for name, home in own.items() if home not in {*sys.stdlib_module_names, "specgrad"}}
        found += ["numba"] * ("numba" in own.values())
    for node in ast.walk(tree):
        targets = [node] if isinstance(node, ast.Attribute | ast.Subscript) else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            targets = node.args[:1]
        elif targets and isinstance(node.ctx, ast.Load):
            continue
        for target in targets:
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
            name = getattr(target, "id", None)
            found += [name] * (name in others)
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_of_other_packages_is_changed_and_numba_is_not_imported(path):
    assert changed_from_outside(tree(path)) == []


def functions_of(folder):
    for path in sorted((SOURCE / folder).rglob("*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield path.name, node.name, node.end_lineno - node.lineno + 1, len(parameters)


def test_functions_of_the_cpu_engine_are_short():
    assert not [found for found in functions_of("engines/cpu") if found[2] > 80 or found[3] > 10]


def test_kernels_of_the_gpu_engine_take_named_tuples():
    counted = {(file, name): parameters for file, name, _, parameters in functions_of("engines/gpu")}
    assert counted["volume.py", "volume_forward"] > 2
    assert not {found for found, parameters in counted.items() if parameters > 12}


def test_the_cpu_engine_has_few_emitters():
    emitters = SOURCE / "engines" / "cpu" / "emitters"
    assert 5 < sum("\ndef emit" in path.read_text(encoding="utf-8") for path in emitters.glob("*.py")) <= 20


@pytest.mark.parametrize(
    "code",
    [
        "import numba",
        "def f():\n from numba.core import config",
        "import torch as t\nt.nn.functional.relu = 1",
        "import numpy as np\nsetattr(np.core, 'x', 1)",
        "from llvmlite import ir\ndel ir.x",
        "from torch import nn\nnn.table['x'] += 1",
    ],
)
def test_changes_of_other_packages_would_be_found(code):
    assert changed_from_outside(ast.parse(code)) != []


def test_every_public_name_is_documented():
    for name in dir(specgrad):
        thing = getattr(specgrad, name)
        if not name.startswith("_") and callable(thing):
            assert thing.__doc__, name


def test_all_lists_the_public_names():
    functions = {
        name
        for module in (specgrad.functional, specgrad.conv_functions, specgrad.array_functions)
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", "") == module.__name__ and name[0] != "_"
    }
    operators = {kind.__name__ for kind in specgrad.OPERATORS}
    assert set(dir(specgrad)) == {*specgrad.__all__, "__version__"}
    assert functions | operators | set(ranked.__all__) | {"OPERATORS", "Dual", "SpecgradError", "engine"} <= set(
        specgrad.__all__
    )


def test_stub_matches_the_ranked_functions():
    assert (SOURCE / "ranked.pyi").read_text(encoding="utf-8") == ranked.stub(), "run `make stubs`"


def test_ranked_functions_are_the_general_ones():
    x = np.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for name, general, window in [
        ("max_pool2d", lambda: specgrad.max_pool(x, (2, 2), stride=1), 2),
        ("avg_pool3d", lambda: specgrad.avg_pool(x, (2, 2, 2), stride=1), (2, 2, 2)),
    ]:
        assert getattr(specgrad, name)(x, window, stride=1).tolist() == general().tolist()
    assert specgrad.adaptive_avg_pool1d(x, None).tolist() == x.tolist()
    assert specgrad.global_max_pool2d(x, keepdims=False).tolist() == x.max((2, 3)).tolist()
    w = np.ones((1, 3, 2, 2))
    assert specgrad.conv2d(x, weight=w, padding=1).tolist() == specgrad.conv(x, w, padding=1).tolist()
    assert specgrad.max_pool1d(x, kernel_size=2).tolist() == specgrad.max_pool(x, (2,)).tolist()


def blocks(document):
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


def shown_average(code):
    """The operator of CONTRIBUTING with a sliding window, and with the divisor that the text leaves
    out."""
    names = dict(vars(pool))
    exec(code, names)
    return type("Shown", (pool.SlidingWindow, names["Average"]), {"name": "shown", "divisor": pool.Average.divisor})


def test_contributing_shows_an_operator_that_works():
    (code,) = blocks("CONTRIBUTING.md")
    x, dx, gy = (np.arange(n).reshape(s) * np.array(Fraction(1, 3)) for n, s in ((9, (3, 3)), (9, (3, 3)), (4, (2, 2))))
    op, real = shown_average(code)((2, 2), stride=1), pool.AvgPool((2, 2), stride=1)
    for numbers in (object, float):
        a, v, g = (array.astype(numbers) for array in (x, dx, gy))
        with specgrad.engine("reference"):
            wanted = (*real.jvp((a,), (v,)), *real.vjp((a,), g))
        assert all(map(np.array_equal, (*op.jvp((a,), (v,)), *op.vjp((a,), g)), wanted))
    for line in ("return S.divide", "divisor = self.divisor"):  # no engine replaces its own methods
        with pytest.raises(ZeroDivisionError):
            shown_average(code.replace(line, f"1 / 0; {line}"))((2, 2), stride=1).vjp((x,), gy)


def test_the_matrix_tries_every_extra_from_its_lower_bounds():
    matrix = runpy.run_path(str(ROOT / ".ci" / "matrix.py"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    groups = {"all", "test"}
    several = groups | {"docs", "examples", "gpu", "peers", "suites"}  # extras of extras, and of any version
    assert set(matrix["TRIALS"]) == {"core", *extras} - groups
    needed = {re.split(r"[>=;]", word)[0] for extra in set(extras) - several for word in extras[extra]}
    bounds = {word.split("==")[0] for word in matrix["constraints"](oldest=True)}
    assert needed <= bounds
    assert [word for word in matrix["constraints"](oldest=False) if not word.startswith("torch==")] == []
    assert len(matrix["cells"](["3.11", "3.12"])) == 3 * (1 + len(matrix["TRIALS"]))


def test_the_page_of_functions_shows_what_happens():
    found = doctest.testfile(str(ROOT / "docs" / "functions.md"), module_relative=False)
    assert (found.failed, found.attempted > 10) == (0, True)


def test_extending_shows_files_that_work(tmp_path):
    document = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    files = re.findall(r"^`(\w+\.py)`.*?```python\n(.*?)```", document, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in files] == ["my_operators.py", "use.py", "test_my_operators.py"]
    assert not {op.name for op in specgrad.OPERATORS} & set(re.findall(r'name: ClassVar = "(\w+)"', files[0][1]))
    for name, code in files:
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "all.py").write_text(ALL_FILES, encoding="utf-8")
    ran = subprocess.run([sys.executable, "-W", "error", "all.py"], cwd=tmp_path, capture_output=True, text=True)
    assert not ran.returncode, ran.stderr + ran.stdout
    promises = [
        " ".join(line.rpartition("# ")[2].rpartition(": ")[2].split())
        for line in files[1][1].splitlines()
        if "print(" in line
    ]
    used, _, checked = ran.stdout.partition("used")
    assert re.sub(r"\s+", " ", used).strip() == " ".join(promises)
    assert "energy_pool: holds" in checked


ALL_FILES = """
import runpy, sys
runpy.run_path("use.py")
print("used")
from test_my_operators import *
test_rows_are_the_derivatives_of_their_values()
from specgrad.cli import main
sys.argv = "specgrad check my_operators.py:AlternatingPool my_operators.py:EnergyPool --quick --in-process".split()
main()
"""
"""Runs the three files in one process."""


ROWS = re.findall(
    r"^\| (.+?) \| `(.+?)` \| `(.+?)` \|$", (ROOT / "docs" / "torchlean.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("name", "call", "gives"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_torchlean_row(name, call, gives):
    names = {}
    exec(blocks("docs/torchlean.md")[0], names)
    result = eval(call, names)
    assert np.array_equal(np.asarray(result), np.asarray(eval(gives)))


def test_torchlean_table_is_complete():
    """Every TorchLean name has a row."""
    listed = {name.strip() for row in ROWS for name in row[0].split(",")}
    wanted = """
        maxPool2dSpec maxPool2dMultiSpec maxPool2dMultiSpecPad maxPoolSpatialSpec maxPoolSpec maxPool
        maxPool2dJvpSpec maxPool2dMultiJvpSpec maxPool2dMultiJvpSpecPad maxPoolSpatialJvpSpec maxPoolJvpSpec
        maxPool2dBackwardSpec maxPool2dMultiBackwardSpec maxPool2dMultiBackwardSpecPad
        maxPoolSpatialBackwardSpec maxPoolBackwardSpec maxPoolBackward avgPool2dSpec avgPool2dMultiSpec
        avgPool2dMultiSpecPad avgPoolSpatialSpec avgPoolSpec avgPool avgPool2dBackwardSpec
        avgPool2dMultiBackwardSpec avgPool2dMultiBackwardSpecPad avgPoolSpatialBackwardSpec avgPoolBackwardSpec
        avgPoolBackward smoothMaxPool2dSpec smoothMaxPool2dMultiSpec smoothMaxPoolSpatialSpec smoothMaxPoolSpec
        smoothMaxPool smoothMaxPool2dJvpSpec smoothMaxPool2dBackwardSpec adaptiveStart adaptiveEnd
        adaptiveAvgPool2dSpec adaptiveMaxPool2dSpec globalAvgPool2dSpec globalAvgPool2dFlatSpec
        globalAvgPool2dBackwardSpec globalAvgPool2dFlatBackwardSpec globalMaxPool2dSpec globalMaxPool2dFlatSpec
        globalMaxPool2dBackwardSpec globalMaxPool2dFlatBackwardSpec globalMaxPool2dBackwardDistributedSpec
        reduceSpatial globalChannelReduce channelSpatialMax unpadImage unpadMultiChannel pool2dOutShape
        pool2dMultiOutShape pool2dMultiOutShapePad poolOutShape poolOutSpatialPad globalPool2dOutShape
        globalPool2dFlatOutShape conv conv2d convTranspose convTranspose2d
    """
    assert set(wanted.split()) <= listed


def test_doctests_are_found():
    """The operators' docstrings have examples, which pytest runs."""
    finder = doctest.DocTestFinder()
    assert all(any(t.examples for t in finder.find(kind)) for kind in specgrad.OPERATORS)
