"""Write docs/speed.svg and the README's figures from docs/figures.json and docs/gpu_networks.json:
`make figures`.

`python benchmarks/torch_front_end.py --json docs/figures.json` measures those of the CPU again. A
test fails if the picture or the table differs from the files.
"""

import json
import re
from html import escape
from math import log2
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parent.parent
FIGURES, GPU = ROOT / "docs/figures.json", ROOT / "docs/gpu_networks.json"
PICTURE, README = ROOT / "docs/speed.svg", ROOT / "README.md"
MARKED = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
LEFT, WIDE, HIGH, MOST = 240, 400, 15, 64
STYLE = (
    "svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#222}.end{text-anchor:end}.head{font-weight:600}"
    ".grid{stroke:#ddd}.level{stroke:#c0392b}.a{fill:#3b7dd8}.b{fill:#9cc3f5}"
)


def networks(measured):
    return [row for row in measured["rows"] if "network" in row]


def operators(measured):
    return [row for row in measured["rows"] if "operator" in row]


def kept(measured):
    """The ratio of bytes that a 3×3 maximum saves for its backward, torch's over ours."""
    row = next(row for row in operators(measured) if row["operator"] == "max k3 s1 p1")
    return row["saved by torch"] / row["saved"]


def table(measured, on_gpu):
    """The README's table: networks on a CPU, and ranges over networks on a GPU."""
    cpu, gpu = (told["torch"].partition("+")[0] for told in (measured, on_gpu["about"]))
    words = (
        f"Speed-up by `accelerate` over PyTorch {cpu} on a CPU ({measured['machine']}, "
        f"threads: {measured['threads']}), and {gpu} on an {on_gpu['about']['gpu']} ("
        f"[five networks](docs/performance.md#gpu)). A 3×3 maximum keeps {kept(measured):.0f} times less memory."
    )
    columns = [("", "---", "inference", "training step")]
    columns += [(f"{r['network']}, CPU", "---", *(f"{r[s]:.1f}" for s in columns[0][2:])) for r in networks(measured)]
    for name, mode, batches in (
        ("GPU, batches of 64, 256", "eager", (64, 256)),
        ("GPU, 1, 8: they wait for Python", "eager", (1, 8)),
        ("GPU, CUDA graphs", "graph", (1, 8, 64, 256)),
    ):
        cells = [row for row in on_gpu["networks"] if row["mode"] == mode and row["batch"] in batches]
        ratios = ([row["ratio"] for row in cells if row["step"] == step] for step in columns[0][2:])
        columns.append((name, "---", *(f"{min(some):.2f} to {max(some):.2f}" for some in ratios)))
    rows = zip(*columns, strict=True)
    return fill(words, 118) + "\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def groups(measured):
    """Headings, names of the two bars, and rows of a label with two ratios."""
    yield (
        "networks",
        ("inference", "training step"),
        [(r["network"], r["inference"], r["training step"]) for r in networks(measured)],
    )
    yield (
        "single operators",
        ("forward", "forward + backward"),
        [(f"{r['operator']}, {r['layout']}", r["forward"], r["forward+backward"]) for r in operators(measured)],
    )


def across(ratio):
    """The position of a ratio on the logarithmic axis from 1/2 to 64."""
    return LEFT + WIDE * (log2(min(max(ratio, 0.5), MOST)) + 1) / (log2(MOST) + 1)


def picture(measured):
    """Two bars for each row, on a logarithmic axis; the red line is torch's own speed."""
    y = 38
    title = "time of PyTorch over time of specgrad"
    where = f"{measured['machine']}, threads: {measured['threads']}, PyTorch {measured['torch']}, {measured['date']}"
    parts = [f'<text class="head" x="4" y="20">{title}</text><text x="4" y="{y}">{escape(where)}</text>']
    for heading, names, rows in groups(measured):
        y += 28
        parts.append(f'<text class="head" x="4" y="{y}">{escape(heading)}</text>')
        for name, kind, x in zip(names, "ab", (LEFT, LEFT + 150), strict=True):
            parts.append(f'<rect class="{kind}" x="{x + 80}" y="{y - 10}" width="12" height="10"/>')
            parts.append(f'<text x="{x + 97}" y="{y}">{name}</text>')
        for label, *ratios in rows:
            y += 6
            parts.append(f'<text class="end" x="{LEFT - 8}" y="{y + HIGH + 4}">{escape(label)}</text>')
            for ratio, kind in zip(ratios, "ab", strict=True):
                end = across(ratio)
                parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{HIGH - 2}"/>')
                parts.append(f'<text x="{end + 5:.1f}" y="{y + 11}">{ratio:.2f}</text>')
                y += HIGH
    grid = "".join(
        f'<line class="{"level" if n == 1 else "grid"}" x1="{across(n):.1f}" x2="{across(n):.1f}" '
        f'y1="44" y2="{y + 6}"/>'
        f'<text x="{across(n) - 4:.1f}" y="{y + 22}">{n}</text>'
        for n in (1, 2, 4, 8, 16, 32)
    )
    size = f'viewBox="0 0 {LEFT + WIDE + 50} {y + 32}" width="{LEFT + WIDE + 50}" height="{y + 32}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{title}</title>'
    return f"{head}<style>{STYLE}</style>{grid}{''.join(parts)}</svg>\n"


def made():
    """The picture and the README, by path."""
    measured = json.loads(FIGURES.read_text(encoding="utf-8"))
    readme = README.read_text(encoding="utf-8")
    told = table(measured, json.loads(GPU.read_text(encoding="utf-8")))
    return {PICTURE: picture(measured), README: MARKED.sub(lambda _: told, readme)}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
