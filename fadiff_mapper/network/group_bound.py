"""The groups of a segment as the compiled bound takes them: the least work of their layers, in any mapping.

`kernel/group_bound.hpp` divides all groups of a segment into parts by their loops, tiles and residencies. It needs, for
each layer, what no mapping of any tile undercuts (`layer_table`), and which units a product can have at work side by
side (`product_units`). docs/theory/planning.md, "Gap", states and proves the rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, permutations
from math import inf, prod

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.candidates import alike, cut_dims, shared_loops
from fadiff_mapper.fusion.estimates import LayerBase, SideBySide, Translated, compiled_segment
from fadiff_mapper.fusion.prices import NOTHING, WordCosts
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel._kernel import GroupBound, LayerLeast, ProductUnits
from fadiff_mapper.model.energy_latency import through_ports
from fadiff_mapper.model.prepared_layer import element_shares, prepare_layer, word_energy
from fadiff_mapper.network.lasting_tensors import Residents
from fadiff_mapper.network.tile_mappings import held_at
from fadiff_mapper.search.lower_bound.assemble import LeastInSteps, least_in_steps
from fadiff_mapper.search.lower_bound.least_traffic import touched_words
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.workload import OperatingPoint

LOOPS = 5
"""Most loops of a group that are divided in every order (120 orders). A limit of time."""


@dataclass(frozen=True)
class KnownForms:
    """Layers and segments of a design in the kernel's form, each computed once.

    Keys hold the identities of the layers' specs, which the caller must keep alive.
    """

    # least work of layers in the kernel's form, with the problems that it was computed from
    tables: dict[Hashable, tuple[LayerLeast, LayerBase, Problem]] = field(default_factory=dict)
    # by last layer: words per cycle of the home's ports, least energy of a word filled into the home, and the problem
    ports: dict[int, tuple[list[float], float, Problem]] = field(default_factory=dict)
    translated: Translated = field(default_factory=dict)    # layers and links of segments in the kernel's form


@dataclass(frozen=True)
class LayerInGroup:
    """A layer in a group whose intermediates all have one home."""

    spec: Spec
    home: int
    written: bool  # whether its output goes to the outermost level
    least: LeastInSteps | None  # bounds on all its work; None: no bound
    done: float = 1.0  # share of the layer's work that the group has to do

    @property
    def once(self) -> OperatingPoint:
        """The least energy and cycles of one run if each word comes from outside once, with or without lasting
        tensors."""
        if self.least is None:
            return NOTHING
        return OperatingPoint(self.done * self.least.energy, self.done * self.least.cycles)


def in_group(spec: Spec, home: int, handed: Mapping[str, bool]) -> LayerInGroup:
    """A layer in a group with a given home.

    Args:
        spec: The layer on its design.
        home: The index of the level in which its intermediates lie.
        handed: The data spaces in the home: operands from an earlier layer or lasting tensors, and the output if it
            stays. The value is true if the whole data space also goes to the outermost level.
    """
    output = spec.problem.output.name
    task = mapping_task(spec, held_at(spec.constraints, home, handed))
    return LayerInGroup(spec, home, handed.get(output, True),
                        least_in_steps(task.layer, task.space, home, output in handed))


def group_bound(hardware: Hardware, segment: Segment, layers: Sequence[LayerInGroup], costs: WordCosts,
                known: KnownForms, residents: Residents) -> GroupBound | None:
    """The bound on a segment's groups that branch and bound can divide; None where only the single point is known.

    Args:
        hardware: The design, with one level that can be a home.
        segment: The segment.
        layers: Its layers.
        costs: Costs of words.
        known: Bounds of other segments on the design; layers, links and ports of this one are added.
        residents: The lasting tensors that lie in the home.
    """
    home, last = layers[0].home, segment.problems[-1]
    usable = hardware.arch.levels[home].usable
    # a layer by itself is one tile; each step finishes the sums of a lasting output
    dims = [dim for dim in cut_dims(segment) if not residents.made or dim in last.output.dimensions]
    dims = dims if segment.links else []
    if usable is None or len(dims) > LOOPS or (segment.links and not dims) or any(
            layer.least is None for layer in layers):
        return None
    if id(last) not in known.ports:
        machine = prepare_layer(layers[0].spec.arch, last, layers[0].spec.tables).machine
        known.ports[id(last)] = ([float(limit[home, 0]) for _, limit in through_ports(0, 0, machine)],
                                 float(word_energy(machine).fill[home].min()), last)
    bandwidth, fill, _ = known.ports[id(last)]
    tables, bases = [], []
    for index, (layer, problem) in enumerate(zip(layers, segment.problems, strict=True)):
        lasting = {operand: there for number, operand, there in residents.operands if number == index}
        read = frozenset({link.tensor for link in segment.into(index)} | lasting.keys())
        brought = frozenset(one.operand for one in segment.shared if one.layer == index)
        made = index < len(segment.links) or residents.made
        cut = frozenset(cut for dim in dims if (cut := segment.cuts[dim][index]))
        key = id(layer.least), layer.done, id(problem), fill, read, brought, made, cut, *lasting.items()
        if key not in known.tables:
            base = LayerBase(0.0, {}, sums_room(layer.spec, len(hardware.arch.levels) - 1, inf),
                             (SideBySide(0.0, {}),), replace(costs, bandwidth=costs.most), NOTHING)
            resting = made and hardware.arch.levels[home].name in hardware.resting
            table = layer_table(layer, problem, fill, lasting, read, brought, made, resting, cut)
            known.tables[key] = table, base, problem    # kept alive, so that its identity stays unique
        table, base, _ = known.tables[key]
        tables.append(table)
        bases.append(base)
    compiled = compiled_segment(hardware, segment, bases, known.translated)
    shared, _ = shared_loops(segment, dims)
    for index, slides in enumerate(segment.slides):     # such points are not recomputed in part
        shared[index] -= {dim for dim in dims if (cut := segment.cuts[dim][index])
                          and (slides[cut].shrink > 1 or slides[cut].block > 1)}
    number = {dim: index for index, dim in enumerate(last.dimensions)}
    equal = [(number[first], number[second]) for first, second in combinations(dims, 2)
             if alike(segment, first, second)]
    adding = {number[dim] for dim in dims if dim not in last.output.dimensions}
    # whether unfinished sums of the last layer may rest in the home
    in_home = last.output.name not in layers[-1].spec.constraints.levels[home].bypass
    orders = []
    for order in map(list, permutations(number[dim] for dim in dims)):
        if any(order.index(first) > order.index(second) for first, second in equal):
            continue
        # sums stay at the level that adds them up only if their reduction loops are innermost
        if set(order[len(dims) - len(adding):]) == adding or in_home:
            orders.append((order, False))
        if adding:
            orders.append((order, True))
    return GroupBound(compiled.tables, tables, float(usable - residents.room), bandwidth, orders, equal,
                      [[number[dim] for dim in dims if dim in own] for own in shared])


def layer_table(layer: LayerInGroup, problem: Problem, fill: float, lasting: Mapping[str, bool], read: Set[str],
                brought: Set[str], made: bool, resting: bool, cut: Set[str]) -> LayerLeast:
    """The least work of a layer in a group in the kernel's form.

    Args:
        layer: The layer, with bounds (`least`).
        problem: Its problem as in the group.
        fill: The least energy of a word filled into the home.
        lasting: The lasting tensors that it finds in the home; true if there already, false if it fetches the tensor.
        read: The operands that lie in the home.
        brought: The operands that an earlier layer of the group reads, too.
        made: Whether its output stays in the home.
        resting: Whether unfinished sums of that output may rest in the home.
        cut: The dimensions that shared loops may cut.
    """
    assert layer.least
    keep = layer.spec.constraints.levels[layer.home].keep
    outside = [space for space in problem.dataspaces if space is not problem.output and space.name not in read]
    # words of a window that spatial loops divide may round to 0
    through = [t for t, space in enumerate(problem.dataspaces) if space is not problem.output
               and (space.name in keep or space.name in read) and layer.least.inward[t] > 0]
    usable = layer.spec.arch.levels[layer.home].usable
    assert usable is not None
    return LayerLeast(
        energy=layer.done * layer.least.inside, cycles=layer.done * layer.least.busy,
        written=layer.done * problem.tensor_size(problem.output) * layer.written, done=layer.done,
        made=layer.done * problem.tensor_size(problem.output) * made,
        lasting=sum(1 << t for t, space in enumerate(problem.dataspaces) if space.name in lasting),
        lasting_words=sum(float(problem.tensor_size(space)) for space in problem.dataspaces
                          if lasting.get(space.name) is False),
        filled=all(space.name in keep for space in outside), fill=fill, back=layer.least.back,
        summing=[(layer.done * cycles, each) for cycles, each in layer.least.summing],
        unfinished=sums_room(layer.spec, layer.home, float(usable)), resting=resting,
        units=product_units(layer, problem, cut, {space.name for space in outside} <= keep, made and not resting),
        through=sum(1 << t for t in through),
        brought=sum(1 << t for t, space in enumerate(problem.dataspaces) if space.name in brought),
        once=[0.0 if space.name in brought else layer.done * touched_words(space, problem.bounds)
              for space in problem.dataspaces],
        inward=[layer.done * float(words) for words in layer.least.inward])


def product_units(layer: LayerInGroup, problem: Problem, cut: Set[str], in_home: bool, finished: bool) -> ProductUnits:
    """The parallelism of a layer in the kernel's form, if it is a matrix product of two operands in the home.

    At least one operand has no windows. Each dimension of the output moves an operand; all other dimensions move both.

    Args:
        layer: The layer.
        problem: Its problem as in the group.
        cut: The dimensions that shared loops may cut.
        in_home: Whether the home keeps both operands in every mapping.
        finished: Whether sums are finished inside the home.
    """
    operands = [space for space in problem.dataspaces if space is not problem.output]
    plain = [space for space in problem.dataspaces if all(
        len(rank) == 1 and abs(rank[0].coefficient) == 1 for rank in space.ranks)]
    output, dims = problem.output, frozenset(problem.dimensions)
    if not (in_home and layer.least and len(operands) == 2 and output in plain
            and any(own in plain for own in operands)):
        return ProductUnits()
    first, second = (own.dimensions for own in operands)
    if not output.dimensions <= first | second or (first ^ second) - output.dimensions:
        return ProductUnits()
    own = {rank[0].dimension for space in operands for rank in space.ranks if len(rank) == 1}
    windows = {term.dimension for space in operands for rank in space.ranks if len(rank) > 1 for term in rank}
    kinds = [output.dimensions & first - second, output.dimensions & second - first, own - windows - output.dimensions,
             first & second & output.dimensions]    # rows, columns, summands, groups
    kinds.append(dims.difference(*kinds))   # steps along windows
    most = layer.home if finished else -1   # levels inside of which sums are finished
    keeping = [(index, here) for index, here in enumerate(layer.spec.constraints.levels[:most])
               if output.name not in here.bypass]
    # the only level for unfinished sums: words of one instance, most instances, and instances along each kind
    holder, most_holders, holders = inf, 1.0, [1.0] * len(kinds)
    if len(keeping) == 1 and output.name in keeping[0][1].keep and (
            room := layer.spec.arch.levels[keeping[0][0]].usable) is not None:
        instances = partial(layer.least.instances, keeping[0][0])
        holder, most_holders, holders = float(room), instances(dims), [instances(frozenset(kind)) for kind in kinds]
    return ProductUnits(
        known=True, computes=layer.done * problem.computes,
        most=min(layer.least.units(dims), problem.computes / layer.least.busy),  # more units would wait for operands
        along=[layer.least.units(frozenset(kind)) for kind in kinds],
        beside=[layer.least.units(dims - kind) for kind in kinds[:4]],
        whole=[0.0 if cut & kind else float(prod(problem.bounds[dim] for dim in kind)) for kind in kinds[:4]],
        holder=holder, most_holders=most_holders, holders=holders,
        uses=[holder * along if finished and space in plain and not finds_summands(layer, space) else inf
              for space, along in zip(operands, (holders[1], holders[0]), strict=True)])


def finds_summands(layer: LayerInGroup, operand: DataSpace) -> bool:
    """Whether all elements of an operand that one sum needs fit together in levels inside the home."""
    assert layer.least
    problem = layer.spec.problem
    summed = frozenset(problem.dimensions) - problem.output.dimensions
    together = layer.least.units(summed)
    shares = element_shares(layer.spec.arch, problem)[0][:, problem.dataspace_names().index(operand.name)]
    for index, here in enumerate(layer.spec.constraints.levels[:layer.home]):
        if operand.name not in here.bypass:
            room = layer.spec.arch.levels[index].usable
            elements = inf if room is None else room / shares[index]
            together = max(together, elements * layer.least.instances(index, summed))
    return prod(problem.bounds[dim] for dim in summed) <= together


def sums_room(spec: Spec, most: int, otherwise: float) -> float:
    """Words of output that the largest of the first `most` levels can hold; at least `otherwise` where no constraint
    keeps the output in one of them."""
    own = [(inf if level.usable is None else float(level.usable) * level.instances, here)
           for level, here in list(zip(spec.arch.levels, spec.constraints.levels, strict=True))[:most]
           if spec.problem.output.name not in here.bypass]
    must = any(spec.problem.output.name in here.keep for _, here in own)
    return max([words for words, _ in own] + ([] if must else [otherwise]))
