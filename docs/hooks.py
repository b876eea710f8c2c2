"""What the site makes when it is built: the first page from the README, gallery, API reference.

`make docs` runs it through MkDocs. Pages that the navigation names and that do not exist yet are
left out.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402 - MkDocs loads this file by its path
from gallery import WINDOWS  # noqa: E402

REPORT = "<!-- from here on written by"
"""Where the generated part of conformance.md begins: on the site it is a page of its own."""


def on_config(config):
    config.nav = present(config.nav)
    return config


def present(nav):
    """The navigation without pages that do not exist."""
    kept = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            kept.append({title: present(target)})
        elif target in GENERATED or (ROOT / "docs" / target).exists():
            kept.append(entry)
    return kept


def on_files(files, config):
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri == "conformance.md":
        markdown = (
            markdown.partition(REPORT)[0]
            + "\n[The whole report](conformance_report.md) has the versions, the matrix and every counterexample.\n"
        )
    markdown = markdown.replace("](../examples/", "](examples/").replace("](../CONTRIBUTING.md", "](contributing.md")
    markdown = re.sub(r"\]\(\.\./(benchmarks|tests|src)/[^)]*\)", "]", markdown)
    return "\n".join(indented(markdown.splitlines()))


def indented(lines):
    """What continues a list item, indented by four: Markdown's dialects differ in this alone."""
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        spaces = len(line) - len(line.lstrip(" "))
        yield line if fenced or not spaces or spaces % 2 else " " * spaces + line


def front_page():
    """The README, whose links lead to the pages of this site."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return text.replace("](CONTRIBUTING.md", "](contributing.md").replace("](CHANGELOG.md", "](changelog.md")


def contributing():
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")


def changelog():
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")


def report():
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    return "# The whole report\n\n" + text.partition(REPORT)[2].partition("\n")[2]


def gallery():
    """Every window of gallery.py, drawn now."""
    parts = [inspect.getdoc(sys.modules["gallery"]), ""]
    for title, call in WINDOWS:
        drawn = reference.drawn(call).replace("\n", "")
        words = f"<p><b>{title}</b><br><code>{reference.escape(call)}</code></p>"
        parts += [f'<div class="window" markdown="0">{words}{drawn}</div>', ""]
    return "\n".join(parts)


GENERATED = {
    "index.md": front_page,
    "contributing.md": contributing,
    "changelog.md": changelog,
    "conformance_report.md": report,
    "gallery.md": gallery,
    **{f"api/{name}.md": (lambda name=name: reference.page(name)) for name in reference.PAGES},
}
