"""Certificates: JSON documents with a proof or a counterexample, checked in exact rationals.

A certificate has the network as an ONNX model and boxes of inputs. Each box has claims with the
steps of a proof, or an input that breaks a claim.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CertificateError, ScalarError, SpecgradError, refusal
from ..graph import Graph
from .exact import Box, Exact, Network, objects
from .replay import confirmed, replay
from .rewrite import rewritten
from .search import Bound, Claim, Row, Step

FORMAT = "specgrad certificate"
VERSION = 1
MOST = 2**28  # characters


def bad(what: str, value: Any, rule: str) -> CertificateError:
    error = refusal(CertificateError, "certificate", what, value, rule, "make the certificate again")
    assert isinstance(error, CertificateError)
    return error


@dataclass(frozen=True, eq=False)
class Problem:
    """Claims for all inputs between `lower` and `upper`, one array of Fractions per input, and
    their proof or a counterexample.

    A claim is a list of rows with bounds. For every input, at least one row·output is greater than
    its bound, or equal to the bound if the row allows equality.
    """

    lower: tuple[Any, ...]
    upper: tuple[Any, ...]
    claims: tuple[Claim, ...]
    proof: Step | None = None
    counterexample: tuple[Any, ...] | None = None
    broken: int = -1

    @property
    def status(self) -> str:
        return "holds" if self.proof is not None else "violated" if self.counterexample is not None else "unknown"


@dataclass(frozen=True, eq=False)
class Certificate:
    """`status` is "holds" if all claims are proved, "violated" if an input breaks one, else
    "unknown".

    ``certificate.check()`` replays the proof, or runs the counterexample, in exact rationals, and
    raises if a step is wrong.
    """

    model: bytes
    covers: str
    problems: tuple[Problem, ...]

    @property
    def status(self) -> str:
        found = [problem.status for problem in self.problems]
        return next((word for word in ("violated", "unknown") if word in found), "holds")

    @property
    def holds(self) -> bool:
        return self.status == "holds"

    @property
    def counterexample(self) -> Any:
        """Exact inputs that break a claim: an array of Fractions, or a tuple of arrays; None if
        there are none."""
        found = next((p.counterexample for p in self.problems if p.counterexample is not None), None)
        return found[0] if found is not None and len(found) == 1 else found

    def graph(self) -> Graph:
        """The network."""
        return onnx_of(self.model)

    def check(self) -> None:
        """Replay the proof in exact rationals; raises CertificateError if a step does not
        follow."""
        if self.status == "unknown":
            raise bad("status", "unknown", "nothing is shown")
        try:
            self._check()
        except SpecgradError:
            raise
        except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:  # arrays with wrong shapes
            raise bad("proof", "steps", f"does not fit the model ({error})") from None

    def _check(self) -> None:
        graph = self.graph()
        simpler = rewritten(graph)
        network = None if self.status == "violated" else Network(simpler, self.covers)
        for problem in self.problems:
            for ends in (problem.lower, problem.upper):
                if [np.shape(end) for end in ends] != [node.shape for node in graph.inputs]:
                    raise bad("box", [np.shape(end) for end in ends], "does not fit the model's inputs")
            if problem.counterexample is not None:
                _check_counterexample(graph, problem)
            elif network is not None and problem.proof is not None:
                _check_rewriting(graph, simpler, problem)
                pairs = zip(problem.lower, problem.upper, strict=True)
                inputs = [Box(*(Exact.of(np.ravel(end)) for end in pair)) for pair in pairs]
                replay(network, inputs, problem.claims, problem.proof)

    def to_json(self) -> str:
        """The certificate as JSON text."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "status": self.status,
            "covers": self.covers,
            "model": base64.b64encode(self.model).decode(),
            "problems": [_problem_document(problem) for problem in self.problems],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """A certificate from its JSON text; only its form is checked."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT or document["version"] != VERSION:
                raise bad("version", document.get("version"), f"is not {FORMAT} {VERSION}")
            if document["covers"] not in ("real", "float32", "float64"):
                raise bad("covers", document["covers"], "must be real, float32 or float64")
            problems = tuple(_problem(part) for part in document["problems"])
            return cls(base64.b64decode(document["model"], validate=True), document["covers"], problems)
        except CertificateError:
            raise
        except (
            KeyError,
            TypeError,
            ValueError,
            IndexError,
            AttributeError,
            ZeroDivisionError,
            RecursionError,
        ) as error:
            raise bad("text", text[:40], f"is not a certificate ({type(error).__name__}: {error})") from None

    def save(self, path: str | Path) -> None:
        """Write the JSON text to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read the JSON text from a file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _check_rewriting(graph: Graph, simpler: Graph, problem: Problem) -> None:
    """Refuse a rewritten network that computes another function: both networks run in rationals at
    three points of the box.

    Three points are no proof. A network that was not rewritten needs none.
    """
    if [(node.op, node.operands) for node in graph.nodes] == [(node.op, node.operands) for node in simpler.nodes]:
        return
    for share in (Fraction(0), Fraction(1, 3), Fraction(1)):
        point = [low + share * (high - low) for low, high in zip(problem.lower, problem.upper, strict=True)]
        try:
            ends = [np.ravel(one.forward(*point)) for one in (graph, simpler)]
        except ScalarError:  # exponentials are not rational
            return
        if any(a != b for a, b in zip(*ends, strict=True)):
            raise bad("model", graph.nodes[graph.outputs[0]].name, "is not the function that the steps are about")


def _check_counterexample(graph: Graph, problem: Problem) -> None:
    x = problem.counterexample
    assert x is not None
    if [np.shape(part) for part in x] != [node.shape for node in graph.inputs]:
        raise bad("counterexample", [np.shape(part) for part in x], "does not fit the model's inputs")
    if not 0 <= problem.broken < len(problem.claims):
        raise bad("counterexample", problem.broken, "breaks no claim that is made")
    inside = [((a <= b) & (b <= c)).all() for a, b, c in zip(problem.lower, x, problem.upper, strict=True)]
    if not all(inside):
        raise bad("counterexample", x, "is not in the box")
    if not confirmed(graph, x, problem.claims[problem.broken]):
        raise bad("counterexample", x, "does not break the claim")


def _numbers(array: Any) -> Any:
    """An array as JSON: Fractions as text, other numbers as bytes in base 64."""
    array = np.asarray(array)
    if array.dtype == object:
        return {"shape": list(array.shape), "fractions": [str(Fraction(n)) for n in array.reshape(-1).tolist()]}
    kind = array.dtype.newbyteorder("<")
    data = base64.b64encode(array.astype(kind).tobytes()).decode()
    return {"shape": list(array.shape), "dtype": kind.name, "data": data}


def _array(document: Any) -> Any:
    """The array of a document, whose data must have the size of its shape."""
    shape = tuple(int(n) for n in document["shape"])
    if "fractions" in document:
        return objects([Fraction(str(n)) for n in document["fractions"]], shape)
    if document["dtype"] not in ("float64", "uint16") or min(shape, default=1) < 0 or math.prod(shape) > MOST:
        raise bad("array", document["dtype"], "must be float64 or uint16")
    data = base64.b64decode(document["data"], validate=True)
    made = np.frombuffer(data, np.dtype(document["dtype"]).newbyteorder("<")).reshape(shape)
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        raise bad("array", made, "must be finite")
    return made


def _problem_document(problem: Problem) -> dict[str, Any]:
    document: dict[str, Any] = {
        "lower": [_numbers(end) for end in problem.lower],
        "upper": [_numbers(end) for end in problem.upper],
        "claims": [
            [
                {"row": [str(Fraction(n)) for n in row], ("at_least" if equal else "above"): str(Fraction(bound))}
                for row, bound, equal in claim
            ]
            for claim in problem.claims
        ],
    }
    if problem.proof is not None:
        document["proof"] = _steps_document(problem.proof)
    if problem.counterexample is not None:
        document["counterexample"] = [_numbers(x) for x in problem.counterexample]
        document["broken"] = problem.broken
    return document


def _steps_document(root: Step) -> list[dict[str, Any]]:
    """The steps of a proof as a list, each with the indices of its parts, since JSON must not be
    nested as deep as a proof."""
    steps = [root]
    for step in steps:
        steps.extend(step.parts)
    place = {id(step): number for number, step in enumerate(steps)}
    return [
        {
            "boxes": {str(value): [_numbers(end) for end in ends] for value, ends in step.boxes.items()},
            "proved": [
                {
                    "claim": bound.claim,
                    "row": bound.row,
                    "single": {str(value): _numbers(a) for value, a in bound.single.items()},
                    "pools": {str(value): [_numbers(a) for a in both] for value, both in bound.pools.items()},
                    "cuts": _numbers(bound.cuts),
                    "joint": {str(value): _numbers(a) for value, a in bound.joint.items()},
                }
                for bound in step.proved
            ],
            **({} if not step.parts or step.split is None else {"split": list(step.split)}),
            "parts": [place[id(part)] for part in step.parts],
        }
        for step in steps
    ]


def _problem(document: Any) -> Problem:
    lower, upper = (tuple(_array(end) for end in document[side]) for side in ("lower", "upper"))
    claims = tuple([_row(part) for part in claim] for claim in document["claims"])
    proof = _steps(document["proof"]) if "proof" in document else None
    broken = int(document.get("broken", -1))
    x = tuple(_array(part) for part in document["counterexample"]) if "counterexample" in document else None
    return Problem(lower, upper, claims, proof, x, broken)


def _row(document: Any) -> Row:
    equal = "at_least" in document
    bound = Fraction(str(document["at_least" if equal else "above"]))
    return Row([Fraction(str(n)) for n in document["row"]], bound, equal)


def _steps(documents: Any) -> Step:
    steps = [Step() for _ in documents]
    for number, (step, document) in enumerate(zip(steps, documents, strict=True)):
        for value, (low, high) in document["boxes"].items():
            step.boxes[int(value)] = _array(low), _array(high)
        for part in document["proved"]:
            single = {int(value): _array(a) for value, a in part["single"].items()}
            pools = {int(value): (_array(mean), _array(floor)) for value, (mean, floor) in part["pools"].items()}
            cuts = _array(part["cuts"]).reshape(-1)
            joint = {int(value): _array(a) for value, a in part["joint"].items()}
            step.proved.append(Bound(int(part["claim"]), int(part["row"]), single, pools, cuts, joint))
        if "split" in document:
            place, cell, other, at = document["split"]
            step.split = int(place), int(cell), int(other), float(at)
        places = [int(place) for place in document["parts"]]
        if any(not number < place < len(steps) for place in places) or len(places) != (2 if step.split else 0):
            raise bad("parts", places, "must be two later steps where there is a split")
        step.parts = [steps[place] for place in places]
    return steps[0]


def onnx_of(model: bytes) -> Graph:
    """The graph of a model."""
    from .. import onnx

    return onnx.load(model)
