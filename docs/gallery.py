"""# Gallery

Windows of every operator, drawn from actual numbers. The window reads the blue cells. The yellow
cell is the maximum, and dotted cells are padding. An arrow points from the output to every cell
that receives a part of its gradient; the small number is the derivative.
"""

WINDOWS = [
    ("A maximum and its winner", "MaxPool((3, 3), stride=2, padding=1), (5, 5), (1, 1)"),
    ("Padding never wins", "MaxPool((3, 3), stride=2, padding=1), (5, 5), (0, 0)"),
    ("A dilated maximum", "MaxPool((2, 2), stride=1, dilation=2), (5, 5), (1, 2)"),
    ("ceil_mode: taps beyond the padding do not exist", "MaxPool((2, 2), ceil_mode=True), (3, 3), (1, 1)"),
    ("A minimum", "MinPool((2, 3), stride=1), (4, 5), (1, 1)"),
    ("Tied maxima, first", "MaxPool((2, 2), ties='first'), [[3, 3], [1, 3]], (0, 0)"),
    ("Tied maxima, all", "MaxPool((2, 2), ties='all'), [[3, 3], [1, 3]], (0, 0)"),
    ("Tied maxima, split", "MaxPool((2, 2), ties='split'), [[3, 3], [1, 3]], (0, 0)"),
    ("NaN wins, and the last NaN takes the gradient", "MaxPool((3,)), [1, float('nan'), 0], (0,)"),
    ("An average counts padding", "AvgPool((3, 3), stride=2, padding=1), (3, 3), (0, 0)"),
    ("An average without padding", "AvgPool((3, 3), stride=2, padding=1, count_include_pad=False), (3, 3), (0, 0)"),
    ("An asymmetric average", "AvgPool((2, 2), stride=1, padding=((1, 0), (0, 1))), (3, 3), (0, 2)"),
    ("A smooth maximum", "SmoothMaxPool((2, 2), beta=0.5), [[1, 2], [3, 4]], (0, 0)"),
    (
        "A smooth maximum whose padding is 0",
        "SmoothMaxPool((2, 2), stride=1, padding=1, beta=1), [[1, 2], [3, 4]], (0, 1)",
    ),
    ("A norm", "LpPool((2,), p=2), [3, -4], (0,)"),
    ("Adaptive bins overlap", "AdaptiveAvgPool((3,)), [1, 2, 3, 4, 5], (1,)"),
    ("An adaptive maximum", "AdaptiveMaxPool((2, 2)), (5, 5), (1, 1)"),
    ("A whole plane", "GlobalMaxPool(2), [[1, 3], [3, 2]], (0, 0)"),
    ("A volume: every plane of the window", "MaxPool((2, 2, 2)), (4, 4, 4), (1, 0, 1)"),
    ("A convolution", "Conv((3, 3), padding=1), (4, 4), (0, 1, 1)"),
    ("A transposed convolution reads what writes into its output", "ConvTranspose((3,), stride=2), (4,), (0, 4)"),
    ("A sum", "SumPool((2, 2), stride=1), (3, 3), (1, 1)"),
]
"""A title, and what `specgrad.explain` is called with: operator, input (or its shape), output."""
