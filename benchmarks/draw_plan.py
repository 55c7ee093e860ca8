"""Writes the tile schedule of a fused group, as a network's report draws it, into an SVG file of its own.

    python benchmarks/draw_plan.py FILE.svg [NAME] [--design large|small]

The group is the first of the plan for a network or some of its layers, see `papers.partial_network`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from papers.partial_network import chain

from fadiff_mapper import map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.output.network_page import network_html


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("name", nargs="?", default="mobilenet_v1:dw1,pw1,dw2")
    parser.add_argument("--design", choices=("large", "small"), default="large")
    options = parser.parse_args()
    result = map_network(chain(options.name), bundled_files.find(f"arch/gemmini_{options.design}"))
    options.file.write_text(picture(network_html(result)))
    print(f"{options.name} on {options.design}: {result.gain:.2%} saved by {len(result.groups)} group(s)")


def picture(page: str) -> str:
    """The schedule of the first group on a report's page as an SVG of its own, with the page's styles."""
    opening = re.search(r'<svg [^>]*aria-label="tile schedule of group 1"[^>]*>', page)
    styles = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert opening and styles, "the plan has no group"
    body = page[opening.end():page.index("</svg>", opening.end())]
    return (f"{opening.group()}\n<style>{styles.group(1)}</style>\n"
            f'<rect width="100%" height="100%" style="fill: var(--back)"/>{body}</svg>\n')


if __name__ == "__main__":
    main()
