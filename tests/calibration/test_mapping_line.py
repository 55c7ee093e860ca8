"""Mappings in one line: what is read, and what is refused."""

from __future__ import annotations

import pytest

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.calibration.measured_points import read_mapping_line
from fadiff_mapper.inputs.load import read_document, read_spec, with_problem
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.workload.operator import make_operator

LINE = "L3[WIO] K4 Q7 - L2[WI] N1 K16X - L1[O] Q2 P2 C4X - L0[W] P7"


def spec() -> Spec:
    """A convolution on a Gemmini whose containers are levels that only fan out."""
    layer = make_operator("conv", {"N": 1, "C": 4, "M": 64, "R": 1, "S": 1, "P": 14, "Q": 14})
    return read_spec(with_problem(read_document("bundled:arch/gemmini_small"), layer.literal))


def read(line: str) -> Mapping:
    of = spec()
    return read_mapping_line(line, of.arch, of.problem, {"K": "M"})


def test_loops_stand_outermost_first_and_spatial_ones_below_their_level() -> None:
    of, mapping = spec(), read(LINE)
    outer = mapping.levels[-1]
    assert (outer.temporal["M"], outer.temporal["Q"]) == (4, 7)
    assert outer.order[:2] == ("Q", "M")
    assert evaluate_mapping(of, mapping).computes == of.problem.computes
    spread = [level.spatial for level in mapping.levels if any(factor > 1 for factor in level.spatial.values())]
    assert [{name: factor for name, factor in each.items() if factor > 1} for each in spread] == [{"C": 4}, {"M": 16}]


@pytest.mark.parametrize(("line", "reason"), [
    ("L3[WIO] K4 Q7", "found the levels"),
    (LINE.replace("K4", "K5"), "the factors of M multiply to 80; accepted: its bound, 64"),
    (LINE.replace("K4", "Z4"), 'found the loop "Z4"'),
    (LINE.replace("K4", "K0"), 'found the loop "K0"'),
    (LINE.replace("L2", "L3"), "each level once"),
    ("", "found the level"),
])
def test_another_line_is_refused_with_what_is_accepted(line: str, reason: str) -> None:
    with pytest.raises(FadiffError, match=reason):
        read(line)
