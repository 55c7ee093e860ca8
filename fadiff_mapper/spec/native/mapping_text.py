"""A mapping as the directives that `timeloop-model` reads."""

from __future__ import annotations

from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.mapping import literal_mapping
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.yaml.load import dump


def map_yaml(spec: Spec, mapping: Mapping) -> str:
    """A mapping as a YAML document.

    Args:
        spec: Architecture and problem of the mapping.
        mapping: The mapping.

    Returns:
        YAML with the one key `mapping`: every factor, order and bypass spelled out, no expressions.
    """
    return dump({"mapping": literal_mapping(mapping, spec.arch, spec.problem)})
