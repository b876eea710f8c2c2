"""The documentation site: it builds without warnings, has every public name, and works in a browser
without a server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import specgrad
from specgrad import ranked

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = {"desktop": 1280, "phone": 390}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, in the folder SPECGRAD_SITE if set."""
    folder = Path(os.environ.get("SPECGRAD_SITE") or tmp_path_factory.mktemp("site"))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(Path(specgrad.__file__).parent.parent)}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr  # --strict: a warning is an error
    return folder


def text(page):
    return page.read_text(encoding="utf-8")


def test_every_public_name_has_an_entry(site):
    named = set(re.findall(r'<h2 id="(\w+)"', "".join(map(text, (site / "api").glob("*.html")))))
    wanted = {name for name in specgrad.__all__ if callable(getattr(specgrad, name))} - set(ranked.__all__)
    assert {name.lower() for name in wanted} <= named


def test_the_gallery_is_drawn(site):
    page = text(site / "gallery.html")
    assert page.count("<svg xmlns") >= 20
    assert "Traceback" not in page


def test_no_page_asks_another_server(site):
    for page in site.rglob("*.html"):
        asked = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\s\">]+)", text(page))
        assert not asked, page


def browser():
    found = os.environ.get("SPECGRAD_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or pytest.skip("no headless browser; name one in SPECGRAD_BROWSER")


def opened(address, *options):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
    ran = subprocess.run([browser(), *flags, *options, address], capture_output=True, timeout=120)
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return ran.stdout.decode()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("page", ["index", "gallery", "semantics"])
def test_pages_look_like_pages(site, tmp_path, page, width):
    image = pytest.importorskip("matplotlib.image")
    shot = tmp_path / f"{page}.png"
    opened((site / f"{page}.html").as_uri(), f"--screenshot={shot}", f"--window-size={width},1400")
    pixels = image.imread(shot)
    assert pixels.shape[1] == width
    body = pixels[200:, :, :3].mean(-1)
    assert 0.005 < (body < 0.6).mean() < 0.5  # neither blank nor mostly dark
    if keep := os.environ.get("SPECGRAD_SITE"):
        shutil.copy(shot, f"{keep}/{page}-{width}.png")


def test_search_works_without_a_server(site):
    found = opened((site / "index.html").as_uri() + "?q=smooth_max_pool", "--dump-dom")
    assert len(re.findall(r"md-search-result__item", found)) >= 2
    assert "semantics.html" in found.partition("md-search-result__list")[2]
