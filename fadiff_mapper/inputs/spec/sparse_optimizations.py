"""The hardware's treatment of zeros: compressed formats, and accesses and computes that it gates or skips."""

from __future__ import annotations

from dataclasses import dataclass, field

FIXED, HYPERGEOMETRIC, BANDED = "fixed_structured", "hypergeometric", "banded"


@dataclass(frozen=True)
class Density:
    """The distribution of the nonzeros of one tensor."""

    # `FIXED`: every tile has the same share of nonzeros. `HYPERGEOMETRIC`: nonzeros are drawn without replacement from
    # the whole tensor. `BANDED`: a square matrix with nonzeros along its diagonal only.
    distribution: str = FIXED
    density: float = 1.0  # share of nonzeros in [0, 1]; without meaning where the tensor is banded
    band_width: int = 0  # diagonals on either side of the main one that hold nonzeros, where the tensor is banded

    @property
    def name(self) -> str:
        """The name of the distribution as Timeloop prints it."""
        return f"{BANDED}-{self.band_width}" if self.distribution == BANDED else self.distribution


DENSE = Density()  # the density of a tensor for which the input gives none
COORDINATE_PAYLOAD, RUN_LENGTH, BITMASK = "cp", "rle", "b"
UNCOMPRESSED_BITMASK, OFFSET_PAIR = "ub", "uop"
COMPRESSED_FORMATS = (COORDINATE_PAYLOAD, RUN_LENGTH, BITMASK)
FORMATS = (*COMPRESSED_FORMATS, UNCOMPRESSED_BITMASK, OFFSET_PAIR)
"""The formats of a rank, in Timeloop's lower-case names. A compressed format stores no zeros."""


@dataclass(frozen=True)
class RankFormat:
    """The format of one rank of a fiber tree."""

    kind: str  # one of `FORMATS`
    # Groups of dimensions whose loops may be flattened into this rank; none takes any single loop.
    flattened: tuple[tuple[str, ...], ...]
    metadata_bits: int  # bits of a unit of metadata (coordinate, run length, bit of a mask)
    payload_bits: int  # bits of a unit of payload (a pointer to the next rank)

    @property
    def compressed(self) -> bool:
        """Whether zeros are left out of this rank."""
        return self.kind in COMPRESSED_FORMATS


@dataclass(frozen=True)
class Representation:
    """The fiber tree in which a level stores a tensor."""

    ranks: tuple[RankFormat, ...]  # formats, innermost rank first
    inner_to_outer: bool = False  # whether the innermost loops get ranks first, and outer ranks may stay empty

    @property
    def compressed(self) -> bool:
        """Whether zeros are left out of at least one rank."""
        return any(rank.compressed for rank in self.ranks)


@dataclass(frozen=True)
class ConditionedAccess:
    """Accesses to a tensor that are saved where tiles of other tensors, the leaders, hold only zeros."""

    target: str  # the tensor whose accesses are saved
    conditions: tuple[str, ...]  # the leaders; one empty leader tile is enough


Choice = tuple[ConditionedAccess, ...]  # alternatives; a mapping takes the one that saves most


@dataclass(frozen=True)
class LevelOptimizations:
    """One storage level's treatment of zeros."""

    # Representation by tensor; a tensor that is not named is stored plainly.
    formats: dict[str, Representation] = field(default_factory=dict)
    gating: tuple[Choice, ...] = ()  # accesses that are gated: the cycle passes, the energy is saved
    skipping: tuple[Choice, ...] = ()  # accesses that are skipped: cycle and energy are saved
    spatial_skipping: tuple[Choice, ...] = ()  # accesses whose skipping leaves instances further in unused


@dataclass(frozen=True)
class SparseOptimizations:
    """The section `sparse_optimizations`."""

    levels: tuple[LevelOptimizations, ...]  # one entry per storage level, innermost first
    gates_computes: bool = False  # whether computes on a zero operand are gated
    skips_computes: bool = False  # whether computes are skipped where an operand has no partner
    applied: bool = True  # whether the section names any optimization; without one Timeloop evaluates densely

    @property
    def formatted(self) -> bool:
        """Whether some level states a format."""
        return any(level.formats for level in self.levels)
