"""Cases restated in the ranks and layouts that a subject offers: a subject with a single form is
checked as thoroughly as others."""

import numpy as np
import pytest
import sessions
from test_conformance_faults import FAULTS, FOLDER, QUICKLY

from specgrad import AdaptiveMaxPool, AvgPool, Conv, ConvTranspose, GlobalMaxPool, Linear, MaxPool, SmoothMaxPool
from specgrad.conformance import NotOffered
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.curated import WINDOWED, curated, directed, row
from specgrad.conformance.forms import FORMS, Form, restated
from specgrad.conformance.subject import load
from specgrad.drawing.window import widened


class Only:
    """A subject that offers only some of another subject's operators and inputs."""

    def __init__(self, subject, offers):
        self.subject, self.offers, self.name = subject, offers, subject.name

    def _asked(self, method, op, inputs, *arguments):
        if not self.offers(op, inputs[0]):
            raise NotOffered("this rank, layout or type")
        return getattr(self.subject, method)(op, inputs, *arguments)

    def forward(self, op, inputs):
        return self._asked("forward", op, inputs)

    def jvp(self, op, inputs, tangents):
        return self._asked("jvp", op, inputs, tangents)

    def vjp(self, op, inputs, cotangent):
        return self._asked("vjp", op, inputs, cotangent)


def planes(op, x):
    """Whether a case has the form (N, C, H, W), which most kernels take."""
    return op.spatial_rank() == 2 and x.ndim == 4 and getattr(op, "axes", None) is None


OFFERS = {
    "rank 2 of (N, C, H, W)": planes,
    "one plane": lambda op, x: op.spatial_rank() == x.ndim == 2 and op.axes is None,
    "channels last": lambda op, x: op.spatial_rank() == 2 and x.ndim == 4 and op.axes == (1, 2),
    "volumes of float64": lambda op, x: op.spatial_rank() == 3 and x.ndim == 5 and x.dtype == np.float64,
    "lines": lambda op, x: op.spatial_rank() == 1 and x.ndim == 3 and op.axes is None,
}


@pytest.fixture
def quick():
    return sessions.session()


RANKED = [*(fault[:3] for fault in FAULTS + QUICKLY if fault[2] != "encloses"), ("nan_dropped", GlobalMaxPool, "nan")]


@pytest.mark.parametrize(("name", "kind", "claim"), RANKED, ids=[f"{f[0]}-{f[1].__name__}" for f in RANKED])
def test_faults_of_kernels_for_planes_only_are_found(quick, name, kind, claim):
    quick.claims = (claim,)
    (cell,) = quick.one(Only(load(f"{FOLDER / name}.py:subject"), planes), kind, 0)
    assert cell.status == "differs"


@pytest.mark.parametrize("offers", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("kind", [MaxPool, AdaptiveMaxPool])
def test_a_kernel_that_drops_nan_is_found_whatever_form_it_takes(quick, kind, offers):
    quick.claims = ("nan", "infinity", "value", "dtype")
    cells = quick.one(Only(load(f"{FOLDER / 'nan_dropped'}.py:subject"), offers), kind, 0)
    assert [cell.status for cell in cells] == ["differs", "holds", "holds", "holds"]
    assert all(cell.cases >= 1 for cell in cells)
    for found in cells[0].differences:
        assert offers(found.case.op, found.case.operands[0])


def test_a_fault_in_one_of_several_offered_ranks_is_found(quick):
    """Cases with NaN are tried in every offered rank and layout, not only the first."""
    right, wrong = (load(f"{FOLDER / name}.py:subject") for name in ("right", "nan_dropped"))
    quick.claims = ("nan",)
    for rank, channels_last in ((1, False), (2, False), (3, False), (2, True)):

        class Mixed:
            name = "mixed"

            def forward(self, op, inputs, rank=rank, channels_last=channels_last):
                amiss = op.spatial_rank() == rank and (op.axes is not None) == channels_last
                return (wrong if amiss else right).forward(op, inputs)

        (cell,) = quick.one(Mixed(), MaxPool, 0)
        assert cell.status == "differs"


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda k: k.__name__)
def test_a_restated_case_asks_the_same(kind, specification):
    """The answers of a restated case have the same cells, as far as the windows are the same."""
    for title, case, _ in curated(kind):
        for form in FORMS:
            other = restated(case, form)
            if other is None:
                continue
            x, y = case.operands[0], other.operands[0]
            own = case.op.spatial_rank()
            assert other.op.output_shape(*(a.shape for a in other.operands)) == other.cotangent.shape
            assert y.dtype == (form.dtype or x.dtype)
            assert [a.shape for a in other.tangents] == [a.shape for a in other.operands]
            if form.rank >= own and y.size == x.size and form.dtype is None and x.dtype.kind == "f":
                before, after = (np.sort(np.ravel(c.op(*map(widened, c.operands)))) for c in (case, other))
                assert np.array_equal(before, after, equal_nan=True), (title, form)


def test_forms_are_what_they_say():
    case = directed(MaxPool((3,), stride=2, padding=1, dilation=2), row(1, 2, 3, 4, 5))
    batch = restated(case, Form(2, "batch"))
    assert batch.op == MaxPool((1, 3), stride=(1, 2), padding=((0, 0), (1, 1)), dilation=(1, 2))
    assert batch.operands[0].shape == (1, 1, 1, 5)
    last = restated(case, Form(3, "channels last"))
    assert (last.op.axes, last.operands[0].shape) == ((1, 2, 3), (1, 1, 1, 5, 1))
    assert restated(case, Form(1, "batch")) is None
    assert restated(case, Form(1, "plane")).operands[0].shape == (5,)
    lower = restated(directed(AvgPool((2, 3)), np.ones((2, 4, 6), np.float32)), Form(1, "channels"))
    assert (lower.op, lower.operands[0].shape) == (AvgPool((3,)), (2, 6))
    conv = restated(directed(Conv((2,), padding=1), row(1, 2), np.ones((1, 1, 2), np.float32)), Form(2, "channels"))
    assert (conv.op, [x.shape for x in conv.operands]) == (
        Conv((1, 2), padding=((0, 0), (1, 1))),
        [(1, 1, 2), (1, 1, 1, 2)],
    )
    linear = directed(Linear(), np.ones((3, 2), np.float32), np.ones((1, 2), np.float32))
    assert restated(linear, Form(2, "batch")) is None
    assert restated(linear, Form(0, "channels")).operands[0].shape == (2,)


def test_what_was_not_tried_is_told_from_what_is_not_offered_and_neither_holds():
    class Scalar:
        """A subject that offers one operator, and answers with a wrong shape."""

        name = "scalar"

        def forward(self, op, inputs):
            if op.name != "max_pool":
                raise NotOffered(op.name)
            return np.float32(0)

    session = sessions.session(claims=("shape", "value", "nan", "jvp", "ties", "padding"))
    status = {
        (cell.operator, cell.claim): cell
        for kind in (MaxPool, SmoothMaxPool)
        for cell in session.one(Scalar(), kind, 0)
    }
    told = {key: cell.status for key, cell in status.items()}
    assert told["MaxPool", "shape"] == "differs"
    assert told["MaxPool", "value"] == told["MaxPool", "nan"] == "not tried"
    assert told["MaxPool", "jvp"] == told["SmoothMaxPool", "value"] == "not offered"
    assert told["SmoothMaxPool", "ties"] == ""
    assert all(cell.cases for key, cell in status.items() if told[key] == "holds")


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda k: k.__name__)
def test_whatever_is_asked_is_tried_on_the_specification(kind, quick):
    """For a subject that answers everything, every claim with a case is tried; the claims without
    cases are known."""
    from specgrad.conformance import subjects

    quick.claims = tuple(CLAIMS)
    told = {cell.claim: cell.status for cell in quick.one(subjects.named("specgrad reference"), kind, 0)}
    empty = {claim for claim, status in told.items() if status != "holds"} - {"encloses"}  # asked of bounds alone
    about_maxima = {"ties"} if kind is SmoothMaxPool or not kind.__name__.endswith(("MaxPool", "MinPool")) else set()
    padded = hasattr(kind, "padding") or kind in (Conv, ConvTranspose)
    assert empty == about_maxima | (set() if padded else {"padding"}) | (
        {"refuses"} if "Global" in kind.__name__ else set()
    )
