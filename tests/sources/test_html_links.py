"""Links of HTML pages, odd and hostile ones included."""

from __future__ import annotations

import time

import pytest

from wheelfit.sources.html_links import read_links

PLAIN = """<!DOCTYPE html>
<html><head><meta name="pypi:repository-version" content="1.1"><title>Links for a</title></head>
<body><h1>Links for a</h1>
<a href="../f/a-1.0-py3-none-any.whl#sha256=00" data-requires-python="&gt;=3.8">
  a-1.0-py3-none-any.whl</a><br/>
<A HREF='a-2.0.tar.gz' data-yanked>a-2.0.tar.gz</A>
</body></html><!--SERIAL 42-->"""


def test_flat_page() -> None:
    """Attributes are unescaped, names lower case, values in any quotes or none."""
    page = read_links(PLAIN)
    assert page.version == "1.1"
    assert page.base is None
    assert [link.href for link in page.links] == [
        "../f/a-1.0-py3-none-any.whl#sha256=00",
        "a-2.0.tar.gz",
    ]
    assert page.links[0].attributes["data-requires-python"] == ">=3.8"
    assert page.links[1].attributes["data-yanked"] == ""
    assert page.links[1].text == "a-2.0.tar.gz"


@pytest.mark.parametrize(
    "page",
    [
        '<style>a > b { color: red }</style><a href="x">x</a>',
        '<script>"<a href=y>"</script><a href="x">x</a>',
        '<!-- <a href="y">y</a> --><a href="x">x</a>',
        '<textarea><a href="y">y</a></textarea><a href="x">x</a>',
        '<title>no <a href="y">y</a></title><a href="x">x</a>',
        '<!--><a href="x">x</a>',
        '<?php <a ?><a href="x">x</a>',
        '<a href="x"><b>x</b></a>',
        '<a href="x"">x</a>',
        '<a/href="x">x</a>',
        '1 < 2 <a href="x">x</a>',
        'a <é> <a href="x">x</a>',
        'a </3> <a href="x">x</a>',
        'a </> <a href="x">x</a>',
        '<a href="x">x</a><a href="y',
        '<SCRIPT><a href="y">y</a></Script ><a href="x">x</a>',
        '<a title="a > b" href="x">x</a>',
        '<a href="x">x',
        "<a href=x>x</a>",
        '<a href="x" href="y">x</a>',
        '<a\nhref = "x"\n>x</a\n>',
        '<abbr href="y">y</abbr><a href="x">x</a>',
    ],
)
def test_odd_pages(page: str) -> None:
    """What is not an anchor for a browser is none here, and anchors of any shape are found."""
    assert [(link.href, link.text) for link in read_links(page).links] == [("x", "x")]


def test_base() -> None:
    """The first base counts."""
    page = read_links('<base href="/one/"><base href="/two/"><a href="x">x</a>')
    assert page.base == "/one/"


def test_anchor_without_target() -> None:
    """An anchor that leads nowhere is not a link."""
    assert read_links('<a name="x">x</a>').links == ()


@pytest.mark.parametrize(
    "page",
    [
        "<a " + "x " * 100_000,
        "<a" + " " * 200_000,
        "<a href='" * 30_000,
        "<!--" * 50_000,
        "<a href=x>" * 50_000,
        "<meta " * 50_000,
        "<a x=" + '"' * 100_000,
    ],
    ids=["attributes", "blanks", "quotes", "comments", "anchors", "metas", "values"],
)
def test_hostile_pages_take_linear_time(page: str) -> None:
    """A page made to be slow is not."""
    start = time.process_time()
    read_links(page)
    assert time.process_time() - start < 5


def test_large_page_is_quick() -> None:
    """A page of 4,000 files, 2 MB, is read in a fraction of a second."""
    anchor = (
        '<a href="https://files.example/packages/{0:064x}/a-{0}-py3-none-any.whl#sha256={0:064x}" '
        'data-requires-python="&gt;=3.8" data-core-metadata="sha256={0:064x}">'
        "a-{0}-py3-none-any.whl</a><br/>\n"
    )
    page = "<!DOCTYPE html><html><body>" + "".join(anchor.format(i) for i in range(4000))
    start = time.process_time()
    assert len(read_links(page).links) == 4000
    assert time.process_time() - start < 0.5
