"""Every operator that can be read, on ONNX's tests for backends; refused tests are listed with the
reason."""

import functools
import importlib
import re
import warnings

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node as suite

import specgrad.onnx
from specgrad import SpecgradError
from specgrad.onnx.table import TABLE

MODULES = """
    abs add and_ averagepool batch_normalization cast castlike ceil celu clip concat constant constantofshape conv
    convtranspose depthtospace div dropout elu equal erf exp expand flatten floor gather gelu gemm
    globalaveragepool globalmaxpool greater greater_or_equal groupnormalization hardsigmoid hardswish identity
    instance_normalization layernormalization leakyrelu less less_or_equal log logsoftmax lpnormalization lppool lrn
    matmul max maxpool mean meanvariancenormalization min mish mod mul neg not_ or_ pad pow prelu rangeop
    reciprocal reduce_log_sum reduce_log_sum_exp reducel1 reducel2 reducemax reducemean reducemin reduceprod
    reducesum reducesumsquare relu reshape resize rmsnormalization selu shape sigmoid size slice softmax softplus
    softsign spacetodepth split sqrt squeeze sub sum swish tanh thresholdedrelu tile transpose unsqueeze upsample
    where
""".split()  # noqa: SIM905
"""The files of the suite with tests of operators that can be read."""

REFUSED = {  # what a test's name holds -> what its refusal says
    "8E[345]|8E8M0|4E2|INT[24](_|$)": "not floats|is not a type that is read",
    "(DOUBLE_to_FLOAT(16)?|FLOAT_to_B?FLOAT16)(_expanded)?$": "would round a value of the graph|of several float types",
    "castlike_(FLOAT16|BFLOAT16|FLOAT)_to_(DOUBLE|FLOAT)$": "is of several float types",
    "training_(dropout|mode)|training_mode": "drops cells at random|normalises by the batch",
    "test_dropout_default_mask|maxpool_with_argmax": "output='z': is computed by no node",
    "identity_(sequence|opt)|equal_string": "is not a tensor|holds string",
    "test_not_": "opset=1",
    "test_pow$": "16 different numbers",
    "range_.*_expanded": "operator='Loop'",
    "reduce_(max|min|log_sum_exp)_empty_set": "must not be empty|at least 1|no cell along|of several float types",
    "tf_crop_and_resize|antialias": "is not read",
}


@functools.cache
def cases(module):
    """The cases of one file of the suite, which are made on its import."""
    before = len(suite._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{suite.__name__}.{module}")
    return suite._NodeTestCases[before:]


def load(case, inputs):
    """The graph of a case, and its input arrays. Integers and bools are constants; then all but the
    first input, then all."""
    names = [proto.name for proto in case.model.graph.input]
    arrays = [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in inputs]
    given = dict(zip(names, arrays, strict=False))
    kinds = {name: getattr(array, "dtype", np.dtype(float)).kind for name, array in given.items()}
    whole = {name for name in names if kinds[name] in "iub"}
    for known in (whole, whole | set(names[1:]), set(names)):
        try:
            graph = specgrad.onnx.load(case.model, constants={name: given[name] for name in known})
            return graph, [array for name, array in given.items() if name not in known]
        except SpecgradError as error:
            refused = error
            if "known" not in str(error):
                break
    raise refused


def run(case):
    """Compare a case's results within the suite's tolerance; returns the refusal, if there is
    one."""
    for inputs, outputs in case.data_sets:
        try:
            graph, arrays = load(case, inputs)
        except SpecgradError as error:
            return str(error)
        wide = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in arrays]  # halves are rounded at the end
        results = graph.forward(*wide)
        for result, expected in zip(results if len(outputs) > 1 else [results], outputs, strict=True):
            wanted = numpy_helper.to_array(expected) if isinstance(expected, TensorProto) else np.asarray(expected)
            assert np.shape(result) == wanted.shape, case.name
            result = np.asarray(result).astype(wanted.dtype)
            np.testing.assert_allclose(
                np.asarray(result, float), wanted.astype(float), case.rtol, case.atol, err_msg=case.name
            )
    return None


@pytest.mark.parametrize("module", MODULES)
def test_backend_cases(module):
    assert cases(module)
    for case in cases(module):
        refused = run(case)
        reasons = [reason for name, reason in REFUSED.items() if re.search(name, case.name)]
        assert bool(refused) == bool(reasons), (case.name, refused)
        assert all(re.search(reason, refused) for reason in reasons), (case.name, refused)


def test_every_operator_that_is_read_is_tested():
    tested = {node.op_type for module in MODULES for case in cases(module) for node in case.model.graph.node}
    assert set(TABLE) - tested == set()
