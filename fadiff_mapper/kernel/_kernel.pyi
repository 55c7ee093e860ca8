"""The compiled module: evaluation, chains and corrections (`module.cpp`), proofs (`proof_bindings.cpp`), sparse designs
(`sparse_bindings.cpp`), the draw of factors (`straight_through.cpp`), estimates and bounds of fused groups
(`estimate_bindings.cpp`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, overload

import numpy as np

Arrays = Sequence[np.ndarray]
"""The arrays of a `Nest` in the order of its fields: six, or eight with residuals (`loop_nest.nest_arrays`)."""

class _Enum:
    __members__: Mapping[str, Any]
    name: Final[str]

class _Table:
    """A class of C++ that is made of its fields by name; `layer.hpp` and `sparse.hpp` have meanings and units."""

    def __init__(self, **fields: Any) -> None: ...

# Layers.

UNLIMITED: float
MOST_CALLS: float
MOST_RECEIVERS: int

class InterconnectKind(_Enum):
    Legacy: InterconnectKind
    ReductionTree: InterconnectKind
    SimpleMulticast: InterconnectKind

class InterconnectTable(_Table): ...
class Unit(_Table): ...
class Level(_Table): ...

class DataSpaceTable:
    """Ranks are lists of terms (dimension, coefficient)."""

    def __init__(self, *, ranks: Sequence[Sequence[tuple[int, float]]], written: bool, dims: int) -> None: ...

class Layer(_Table): ...

# Evaluation.

def score(layer: Layer, nest: Arrays, room_words: np.ndarray | None, room_counted: np.ndarray | None,
          out: np.ndarray, first: int, last: int, all: bool,
          sparse: SparseTables | None = None) -> None: ...

def traffic(layer: Layer, nest: Arrays, with_hops: bool) -> tuple[np.ndarray, ...]: ...

def draw_columns(theta: np.ndarray, noise: np.ndarray | None, alpha: float, tau: float, member: np.ndarray,
                 divisor: np.ndarray, completable: np.ndarray, left: np.ndarray, start: np.ndarray, hard: np.ndarray,
                 slope: np.ndarray) -> None: ...

# Sparse designs.

MOST_RANKS: int
MOST_LEVELS: int
MOST_LOOPS: int
REJECTED: float
VECTOR_THRESHOLDS: Mapping[int, Sequence[int]]

class DensityModel:
    """How the nonzeros of a tensor are distributed; tiles are given by their extents along the ranks of the tensor.

    Methods raise the error given to `raise_aborted_as` where Timeloop ends.
    """

    def __init__(self, distribution: str, density: float, band_width: int, tensor: Sequence[int]) -> None: ...
    kind: Final[str]
    density: Final[float]
    # Nonzeros and words of the tensor.
    nonzeros: Final[float]
    words: Final[float]
    # The occupancies of tiles that have a probability, ascending, and these probabilities.
    def histogram(self, tile: Sequence[int]) -> tuple[np.ndarray, np.ndarray]: ...
    # The least occupancy that Timeloop looks at, and the largest one.
    def least(self, tile: Sequence[int]) -> float: ...
    def most(self, tile: Sequence[int]) -> float: ...
    def expected(self, tile: Sequence[int]) -> float: ...
    # The probability that a tile holds no nonzero; within a tile `outer` for each number of nonzeros in it.
    def empty(self, tile: Sequence[int]) -> float: ...
    def empty_within(self, tile: Sequence[int], outer: Sequence[int], occupancies: np.ndarray) -> np.ndarray: ...
    # The most elements with a nonzero in one fiber of them.
    def most_elements(self, fiber: Sequence[int], element: Sequence[int]) -> float: ...

def raise_aborted_as(error: type[Exception]) -> None: ...

class RankKind(_Enum): ...

class RankTable(_Table): ...
class FormatTable(_Table): ...
class SparseLevel(_Table): ...
class SparseTables(_Table): ...

# Search.

class Decision(_Enum):
    ORDER: Decision
    LAYOUT: Decision
    KEEP: Decision

class SpaceTables:
    """Of the tables of divisors and those of whole numbers (`least`, `most`, `points`) one kind is given."""

    def __init__(self, layer: Layer, *, divisor: np.ndarray | None = None, quotient: np.ndarray | None = None,
                 product: np.ndarray | None = None, allowed: np.ndarray | None = None,
                 completable: np.ndarray | None = None, bound: np.ndarray | None = None,
                 least: np.ndarray | None = None, most: np.ndarray | None = None, points: np.ndarray | None = None,
                 movable: Sequence[tuple[int, int]], orders: Sequence[Sequence[Sequence[int]]],
                 layouts: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], keep: np.ndarray,
                 open: Sequence[tuple[int, int]], decisions: Sequence[tuple[Decision, int, int]], available: float,
                 min_parallelism: float) -> None: ...

TINY: float
ILLEGAL: float
SAME: float

class Metric(_Enum):
    edp: Metric
    share: Metric

class Stage(_Enum): ...

class Program(_Enum): ...

class Correction(_Table):
    BLOCK: float
    ROUNDING: float
    BEAT: float
    LINE: float
    PAGE: float
    CACHE: float
    WIDEST: float

class Chains:
    def __init__(self, layer: Layer, space: SpaceTables, terms: Sequence[tuple[float, Metric]],
                 room_words: np.ndarray | None, room_counted: np.ndarray | None, seed: int,
                 sparse: SparseTables | None = None, correction: Correction | None = None,
                 sums: tuple[float, float] = (1.0, 1.0), seconds: float = ...) -> None: ...
    def start_random(self, count: int) -> None: ...
    def start_at(self, nest: Arrays) -> None: ...
    def begin(self, rounds: int, temperature_start: float, temperature_end: float, rounds_least: int,
              chains_agreeing: int, tries: int, greedy: bool, resplit_rate: float = 0,
              crossover_rate: float = 0) -> None: ...
    def anneal(self, rounds: int) -> bool: ...
    def keep_strongest(self, count: int) -> None: ...
    def start_again(self, count: int) -> None: ...
    def polish(self, steps: int) -> bool: ...
    def best(self) -> tuple[np.ndarray, ...]: ...
    def history(self, first: int) -> list[tuple[float, int, int, float, Stage]]: ...
    agreed: Final[bool]
    met: Final[int]
    best_value: Final[float]
    evaluations: Final[int]
    legal_evaluations: Final[int]

PROOF_TOLERANCE: float

class OpenFanOut(_Table): ...
class OpenSchemes(_Table): ...
class OpenLoops(_Table): ...

class Scheme:
    """All spatial factors of a mapping, [L * D], and whether each level keeps each data space, [L * T]."""

    spatial: Final[list[float]]
    keep: Final[list[bool]]

class SchemeWalk:
    """Goes through every scheme of a map space, once."""

    def __init__(self, layer: Layer, open: OpenSchemes) -> None: ...
    def __iter__(self) -> Iterator[Scheme]: ...
    def __next__(self) -> Scheme: ...
    # Every layout of a scheme that the meshes have room for.
    def layouts(self, scheme: Scheme) -> list[Layout]: ...

class Layout:
    """Spatial loops of all levels, [L * D]: dimensions, innermost first; by dimension whether the loop lies on Y."""

    order: Final[list[int]]
    on_y: Final[list[int]]

class LevelLoops:
    """Temporal loops of one level, as a prover chose them, [D] each."""

    factors: Final[list[float]]
    order: Final[list[int]]

class Prover:
    """Bounds parts of a map space and searches them; `outer` are the loops of the outermost levels.

    Built with the bounds, what is open in time, the metric, energy and cycles of the network of a share, and the room.
    """

    def __init__(self, layer: Layer, bounds: list[float], open: OpenLoops, metric: Metric,
                 sums: tuple[float, float], room_words: np.ndarray | None, room_counted: np.ndarray | None) -> None: ...
    # Takes up a scheme with its layouts; without any it is bounded alone, for every layout. Returns its bound.
    def begin(self, scheme: Scheme, layouts: Sequence[Layout]) -> float: ...
    # Takes up the next schemes of a walk, without layouts, `most` at most, and bounds those with so many units at work.
    # Returns how many there were, and those below the limit, with their bounds.
    def begin_each(self, walk: SchemeWalk, limit: float, most: int,
                   units: float) -> tuple[int, list[tuple[float, Scheme]]]: ...
    # How many parts decide one more level; of those below the limit the bound, and the loops of that level.
    def divided(self, outer: Sequence[LevelLoops], limit: float) -> tuple[int, list[tuple[float, LevelLoops]]]: ...
    # Whether the budget sufficed, bound of mappings that were not evaluated, best value, parts and mappings looked at,
    # and the best mapping below the limit.
    def search(self, outer: Sequence[LevelLoops], limit: float,
               budget: int) -> tuple[bool, float, float, int, int, tuple[np.ndarray, ...] | None]: ...

class SegmentLayer:
    """A layer of segments; see `fusion/estimates.py:compiled_segment`. Sets of data spaces are bits."""

    def __init__(self, *, bounds: list[float], spaces: list[list[list[tuple[int, float]]]], output: int, linked: int,
                 handed: int, inside: float, known: list[tuple[float, list[float]]], sums_room: float, read: float,
                 write: float, words_per_cycle: float, home_reads: list[float], home_price: list[float]) -> None: ...

class SegmentLink:
    """A link between two layers of segments; tables are by dimension of the producer."""

    def __init__(self, *, theirs: list[int], slides: list[tuple[float, float, float, float, float, float, float]],
                 stored: list[float], lying: tuple[float, float], elsewhere: float, beside: bool, written_whole: bool,
                 written_pooled: bool, distance: int) -> None: ...

class FusedSegment:
    """A segment's layers, one fewer links, and shared operands: layer and data space, and those that brought them."""

    def __init__(self, layers: list[SegmentLayer], links: list[SegmentLink], repeat: float,
                 shared: list[tuple[int, int, int, int]]) -> None: ...

class ProductUnits:
    """Units side by side of a layer that is a product of two operands in the home; without arguments: of no product."""

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, *, known: bool, computes: float, most: float, along: list[float], beside: list[float],
                 whole: list[float], holder: float, most_holders: float, holders: list[float],
                 uses: list[float]) -> None: ...

class LayerLeast:
    """What no mapping of a layer in a group undercuts. Sets of data spaces are bits."""

    def __init__(self, *, energy: float, cycles: float, written: float, made: float, done: float, filled: bool,
                 fill: float, back: float, summing: list[tuple[float, float]], unfinished: float, resting: bool,
                 units: ProductUnits, through: int, brought: int, lasting: int, lasting_words: float,
                 once: list[float], inward: list[float]) -> None: ...

class GroupPart:
    """A part of the groups of a segment, with its bounds."""

    # For a group with so many loops and links: the number of its order (`GroupBound.orders`); the least and largest
    # tiles, by place in the order; by link the places, as bits, of the loops along which words are made again, and of
    # those along which they stay; and by layer the residencies of two operands from outside, numbered from 1 on, 0 if
    # undecided.
    def decisions(self, loops: int, links: int) -> tuple[
        int, list[float], list[float], list[int], list[int], list[list[int]]]: ...
    def price(self, energy: float, cycles: float) -> float: ...     # infinite where no group fits

class GroupBound:
    """All groups of a segment in parts; prices as for `NestEstimate`."""

    parts: list[GroupPart]  # without those that were divided
    # dimensions of the loops, outermost first, and whether sums are spilled; the first one stands for all orders
    orders: list[tuple[list[int], bool]]
    shared: list[list[int]]     # by link the dimensions along which steps share words of the intermediate

    def __init__(self, segment: FusedSegment, layers: list[LayerLeast], usable: float, bandwidth: list[float],
                 orders: list[tuple[list[int], bool]], alike: list[tuple[int, int]],
                 shared: list[list[int]]) -> None: ...
    def lower(self, energy: float, cycles: float) -> float: ...
    def least_loops(self, energy: float, cycles: float) -> list[tuple[int, float]]: ...
    # Layers of parts that were bounded until the least price was at least `bar`, or no part with it could be divided.
    def refine(self, energy: float, cycles: float, bar: float, most: int) -> int: ...
    # The part with the least price, if it cannot be divided and was not searched at this price: its place; dimensions
    # of the last layer and tiles of its loops of several steps; by link, the loops along which words stay; whether sums
    # are spilled; residencies of operands by layer, numbered from 1 on, 0 if undecided; and least prices of layers.
    def least_whole(self, energy: float, cycles: float) -> tuple[
        int, list[tuple[int, float]], list[list[int]], bool, list[list[int]], list[float]] | None: ...
    # Takes up the least price of the groups in the part at a place.
    def searched(self, place: int, energy: float, cycles: float, least: float) -> None: ...
    # The part with these decisions, as in `GroupPart.decisions`.
    def part(self, order: int, least: Sequence[float], most: Sequence[float], again: Sequence[int],
             kept: Sequence[int], stays: Sequence[Sequence[int]]) -> GroupPart: ...
    # The parts of a part by the choice that raises its price most; empty where it cannot be divided.
    def divided(self, part: GroupPart, energy: float, cycles: float) -> list[GroupPart]: ...
    # How many residencies an operand may have in an order, by its place among those of the layer from outside; 0: none.
    def residencies(self, order: int, layer: int, slot: int) -> int: ...

class SumsRest:
    """Where partial sums rest between steps: where they are summed up, in the home, or in the outermost level."""

    INSIDE: SumsRest
    HOME: SumsRest
    OUTERMOST: SumsRest

class NestEstimate:
    """One nest with tile sizes [loops, B]; prices are energy / `energy` + cycles / `cycles`.

    There are no choices where none can have a price below the limit.
    """

    def __init__(self, segment: FusedSegment, home: int, usable: float, dims: list[int], retained: list[int],
                 sums: SumsRest, sizes: np.ndarray, energy: float = ..., cycles: float = ...,
                 limit: float = ..., resting: bool = ...) -> None: ...
    def lower_prices(self, energy: float, cycles: float) -> list[float]: ...
    # Price, energy, cycles and column of the best sizes.
    def best_sizes(self, choice: int, energy: float, cycles: float,
                   bar: float) -> tuple[float, float, float, int] | None: ...
    # Layer, data space and loops (bits) of each operand that stays; layer and data space that brought it, else -1.
    def stays(self, choice: int) -> list[tuple[int, int, int, int, int]]: ...
