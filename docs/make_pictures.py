"""Writes the pictures of the tutorials: drawings from the pages that the program writes, as files of their own.

    python docs/make_pictures.py
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper import DesignOptions, infer, load_network, map_network, search_design

STEM = """\
workload:
  version: 1
  name: three layers of MobileNetV1
  inputs: {conv1: [1, 32, 112, 112]}
  shapes:
  - {id: dw1, op: depthwise, dims: {C: 1, M: 1, R: 3, S: 3, N: 1, P: 112, Q: 112, G: 32}}
  - {id: pw1, op: conv, dims: {C: 32, M: 64, R: 1, S: 1, N: 1, P: 112, Q: 112}}
  - {id: dw2, op: depthwise, dims: {C: 1, M: 1, R: 3, S: 3, N: 1, P: 56, Q: 56, G: 64}, stride: [2, 2]}
  graph:
  - {name: dw1, shape: dw1, from: [conv1]}
  - {name: pw1, shape: pw1, from: [dw1]}
  - {name: dw2, shape: dw2, from: [pw1]}
"""


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stem.yaml").write_text(STEM, encoding="utf-8")
        map_network(load_network(folder / "stem.yaml"), "bundled:arch/gemmini_large").write(folder / "network")
        options = DesignOptions(method="random", evaluations=40, fuse=False, prune=False, neighbours=False)
        search_design("bundled:spaces/gemmini_large", "bundled:networks/mobilenet_v1", options).write(folder / "design")
        infer("bundled:models/llama3_8b", "bundled:inference/tpu_v4i_like", batch=[1, 16], prompt=1024, generate=128,
              output=folder / "inference")
        for picture, page, title in (("fused_plan", "network/report.html", "tile schedule of group 1"),
                                     ("design_page", "design/design.html", "EDP against area of every feasible design"),
                                     ("inference_page", "inference/inference.html", "what bounds the time")):
            text = drawing((folder / page).read_text(encoding="utf-8"), title)
            Path(__file__).with_name(f"{picture}.svg").write_text(text, encoding="utf-8")


def drawing(page: str, title: str) -> str:
    """The drawing with this title on a page as an SVG of its own, with the page's styles."""
    opening = re.search(rf'<svg [^>]*aria-label="{title}"[^>]*>', page)
    styles = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert opening and styles, f"there is no drawing {title}"
    body = page[opening.end():page.index("</svg>", opening.end())]
    return (f"{opening.group()}\n<style>{styles.group(1)}</style>\n"
            f'<rect width="100%" height="100%" style="fill: var(--back)"/>{body}</svg>\n')


if __name__ == "__main__":
    main()
