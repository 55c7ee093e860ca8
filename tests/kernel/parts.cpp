// Parts of the kernel one by one for the tests: the module `fadiff_mapper.kernel._parts`, which a checkout's build makes beside
// `_kernel` (setup.py). It takes the classes of `_kernel`.

#include "bindings.hpp"
#include "evaluate.hpp"
#include "group_bound.hpp"
#include "loop_cuts.hpp"
#include "traffic.hpp"

namespace fadiff {

static void fit(bool holds, const char* what) { need(holds, what, ": wrong shape"); }

// A walk with the given moves [S][R] and extent [R].
static WindowWalk walk_over(const Array<double>& bounds, const Array<double>& moves, const Array<double>& extent) {
    fit(bounds.ndim() == 1, "bounds");
    fit(extent.ndim() == 1, "extent");
    fit(moves.ndim() == 2 && moves.shape(0) == bounds.shape(0) && moves.shape(1) == extent.shape(0), "moves");
    WindowWalk walk;
    walk.ranks = int(extent.shape(0));
    walk.extent.assign(extent.data(), extent.data() + extent.size());
    walk.moves.assign(moves.data(), moves.data() + moves.size());
    walk.repeated.resize(bounds.size());
    walk.words = 1;
    for (double words : walk.extent) walk.words *= words;
    return walk;
}

// Words of the calls that repeat no delivery, and of those that repeat one by loop.
template <double (*WALK)(const double*, int, WindowWalk&)>
static py::tuple walked(const Array<double>& bounds, const Array<double>& moves, const Array<double>& extent) {
    WindowWalk walk = walk_over(bounds, moves, extent);
    const double plain = WALK(bounds.data(), int(bounds.size()), walk);
    return py::make_tuple(plain, Array<double>(bounds.size(), walk.repeated.data()));
}

// The walk of one tile of the first mapping of a batch: (bounds [S], moves [S][R], extent [R], words).
static py::tuple tile_walk(const Layer& layer, const py::sequence& nest, int level, int tensor) {
    const Batch batch = batch_of(layer, nest);
    fit(batch.size > 0, "batch");
    need(level >= 0 && level < layer.levels && tensor >= 0 && tensor < layer.tensors, "level, tensor");
    MappingPack pack(layer);
    pack_mapping(layer, mapping_of(layer, batch, 0), pack);
    Tiles tiles(layer);
    lay_tiles(layer, pack, tiles);
    Loops loops(layer);
    line_up(layer, pack, tiles, 0, loops);
    FanOut fan_out(layer);
    spread_out(layer, pack, tiles, 0, level, fan_out);
    WindowWalk walk;
    start_walk(layer, layer.spaces[tensor], loops, fan_out, walk);
    const py::ssize_t first = loops.start[level], count = loops.count - first;
    return py::make_tuple(Array<double>(count, loops.bound.data() + first),
                          Array<double>({count, py::ssize_t(walk.ranks)}, walk.moves.data()),
                          Array<double>(walk.ranks, walk.extent.data()), walk.words);
}

// Receivers row by row in a grid that has room for them all.
static Grid grid_over(std::size_t count, int width, int height) {
    need(count <= MOST_RECEIVERS && width <= MOST_UNITS && height <= MOST_UNITS, "receivers of the grid");
    fit(count > 0 && width > 0 && height > 0 && count <= std::size_t(width) * height, "receivers of the grid");
    Grid grid;
    grid.count = int(count), grid.width = width, grid.height = height;
    grid.linked.assign(count, 0);
    return grid;
}

static int linked(const Array<double>& offsets, int width, int height, const Array<double>& move) {
    fit(offsets.ndim() == 2, "offsets");
    fit(move.ndim() == 1 && move.shape(0) == offsets.shape(1), "move");
    Grid grid = grid_over(offsets.shape(0), width, height);
    grid.coordinates = int(offsets.shape(1));
    grid.offset.assign(offsets.data(), offsets.data() + offsets.size());
    return find_linked(grid, grid, move.data(), grid.coordinates);
}

// Receivers outside every group (negative) are those that a neighbour serves.
static Array<double> hops(const Array<std::int64_t>& group, int width, int height) {
    fit(group.ndim() == 1, "group");
    Grid grid = grid_over(group.size(), width, height);
    grid.group.assign(group.size(), 0);
    for (int e = 0; e < grid.count; ++e) {
        const std::int64_t own = group.data()[e];
        need(own < grid.count, "group");
        grid.linked[e] = own < 0;
        grid.group[e] = int(std::max<std::int64_t>(own, 0));
        grid.groups = std::max(grid.groups, grid.group[e] + 1);
    }
    count_hops(grid);
    return Array<double>(grid.hops.size(), grid.hops.data());
}

// Points as the arrays of a Nest, the numbers of their divisors [P][D][B], and the column that each came from [B].
static py::tuple points_of(const Layer& layer, const MapSpace& space, const std::vector<Point>& points,
                           const std::vector<std::int64_t>& row) {
    const std::size_t size = points.size();
    Array<std::int64_t> number({std::size_t(layer.places()), std::size_t(layer.dims), size});
    std::vector<const Mapping*> mappings;
    for (std::size_t b = 0; b < size; ++b) {
        mappings.push_back(&points[b].mapping);
        for (std::size_t at = 0; at < points[b].number.size(); ++at) number.mutable_data()[at * size + b] = points[b].number[at];
    }
    return nest_arrays(layer, mappings, space.residual()) + py::make_tuple(number, Array<std::int64_t>(row.size(), row.data()));
}

// What `change(point, random, take)` hands to `take` for every mapping of a batch, in the form of `points_of`.
template <typename Change>
static py::tuple changed(const Layer& layer, const MapSpace& space, const py::sequence& nest, std::uint64_t seed, Change change) {
    need_layer_of(space, layer);
    const Batch batch = batch_of(layer, nest);
    Random random(seed);
    std::vector<Point> points;
    std::vector<std::int64_t> row;
    for (std::size_t b = 0; b < batch.size; ++b)
        change(point_of(layer, space, mapping_of(layer, batch, b)), random,
               [&](const Point& point) { points.push_back(point), row.push_back(b); });
    return points_of(layer, space, points, row);
}

static py::tuple random_points(const Layer& layer, const MapSpace& space, int count, std::uint64_t seed) {
    need_layer_of(space, layer);
    Random random(seed);
    std::vector<Point> points(std::max(count, 0), Point(layer));
    std::vector<std::int64_t> row(points.size());
    for (std::size_t b = 0; b < points.size(); ++b) draw_point(layer, space, int(b), random, points[b]), row[b] = b;
    return points_of(layer, space, points, row);
}

static py::tuple all_neighbours(const Layer& layer, const MapSpace& space, const py::sequence& nest, std::uint64_t seed) {
    return changed(layer, space, nest, seed, [&](const Point& from, Random& random, auto take) {
        Point point = from;
        each_neighbour(layer, space, from, random, [&](const Changes& changes) {
            apply(space, changes, point);
            take(point);
            take_back(space, from, changes, point);
        });
    });
}

static py::tuple random_neighbours(const Layer& layer, const MapSpace& space, const py::sequence& nest, int tries,
                                   std::uint64_t seed, double resplit_rate) {
    return changed(layer, space, nest, seed, [&](const Point& from, Random& random, auto take) {
        Point point = from;
        Changes changes;
        for (int i = 0; i < tries; ++i) {
            if (move(layer, space, from, resplit_rate, random, point, changes)) take(point);
            take_back(space, from, changes, point);
        }
    });
}

static py::tuple layouts_fitted(const Layer& layer, const MapSpace& space, const py::sequence& nest, std::uint64_t seed) {
    return changed(layer, space, nest, seed, [&](Point point, Random& random, auto take) {
        Changes changes;
        fit_layouts(layer, space, random, point, changes);
        take(point);
    });
}

// The closed forms of one layer of a segment in one tile size: its loops, and words of one data space that stays along the loops
// `across`; of the intermediate that it makes words that lie there and that outlast a step. Sets of loops are bits. `open`: loops
// along which each intermediate may be retained or computed again, in a box of tiles from `least` on, of bounds; else none.
static py::dict closed_forms(const FusedSegment& segment, const std::vector<int>& dims, const std::vector<double>& sizes,
                             const std::vector<Loops64>& retained, int index, int tensor, Loops64 across,
                             const std::optional<std::vector<Loops64>>& open, const std::vector<double>& least) {
    const int layers = int(segment.layers.size()), loops = int(dims.size());
    need(index >= 0 && index < layers, "layer");
    const FusedLayer& layer = segment.layers[index];
    fit(sizes.size() == dims.size() && retained.size() == segment.links.size(), "sizes, retained");
    need(tensor >= 0 && tensor < int(layer.spaces.size()), "tensor");
    for (int dim : dims) need(dim >= 0 && dim < segment.layers.back().dims(), "dims");
    const std::vector<Lanes> own_sizes(sizes.begin(), sizes.end());
    std::vector<LoopCut> cuts(std::size_t(layers) * loops);
    std::vector<LoopCut> smallest(cuts.size());
    if (open) {
        fit(open->size() == segment.links.size() && least.size() == dims.size(), "open, least");
        const std::vector<Lanes> least_sizes(least.begin(), least.end());
        cut_layers(segment, dims, least_sizes.data(), retained, smallest.data(), true);
        const WidestTiles widest{smallest.data(), *open};
        cut_layers(segment, dims, own_sizes.data(), retained, cuts.data(), true, &widest);
    } else {
        cut_layers(segment, dims, own_sizes.data(), retained, cuts.data());
    }
    const LoopCut* own = cuts.data() + std::size_t(index) * loops;
    const auto in = [](const char* name) { return py::arg(name); };
    py::list found;
    for (int loop = 0; loop < loops; ++loop)
        found.append(py::dict(in("steps") = own[loop].steps[0], in("points") = own[loop].points[0],
                              in("largest") = own[loop].largest()[0], in("needed") = own[loop].needed[0],
                              in("widest") = larger(own[loop].first, own[loop].later)[0],
                              in("alike") = ((own[loop].first == own[loop].usual()) & (own[loop].uneven == 0.0))[0]));
    const bool last = index + 1 == layers;
    return py::dict(
        in("loops") = found, in("computed") = computed(layer, own, loops)[0],
        in("fetched") = fetched(layer, tensor, own, loops, across)[0], in("held") = held(layer, tensor, own, loops, across)[0],
        in("lying") = last ? 0 : held(layer, layer.output, own, loops, across, &segment.links[index])[0],
        in("outlasting") = last ? 0 : outlasting(layer, own, loops, across, segment.links[index])[0]);
}

// How often each data space of one layer's tile comes in; None where no schedule fits. Sets of data spaces are bits.
static py::object refetches(const FusedSegment& segment, std::size_t layer, const std::vector<double>& tile, Spaces passing,
                            Spaces staying, double room, double sums_room, Spaces by) {
    need(layer < segment.layers.size(), "layer");
    fit(tile.size() == segment.layers[layer].bounds.size(), "tile");
    Refetch found;
    refetched(segment.layers[layer], tile.data(), passing, staying, by, room, sums_room, found);
    return found.fits ? py::object(py::cast(found.times)) : py::none();
}

// Scores of mappings with residuals without Timeloop's faults of rounding, as chains compare them: cycles, energy, last level
// accesses, excess, legal, [5][B]. Rooms [L][B] and [L][T][B].
static Array<double> unrounded_scores(const Layer& layer, const py::sequence& nest, const Given<double>& words,
                                      const Given<bool>& counted) {
    const Batch batch = batch_of(layer, nest);
    const std::size_t size = batch.size;
    fit(batch.residual(), "residuals");
    const RoomColumns rooms = rooms_of(layer, words, counted, size);
    RoomPack room(layer);
    Evaluator evaluator(layer, true);
    Array<double> out({std::size_t(5), size});
    for (std::size_t column = 0; column < size; ++column) {
        if (words) lay_room(rooms, column, 0, room);
        Scores rounded[LANES], found[LANES];
        pack_columns(layer, batch, column, 1, evaluator.work.pack);
        evaluator.evaluate(words ? &room : nullptr, 0, rounded, found);
        double* at = out.mutable_data() + column;
        for (const double value : {found->cycles, found->energy, found->last_level_accesses, found->excess, double(found->legal)})
            *std::exchange(at, at + size) = value;
    }
    return out;
}

// Corrected cycles of every mapping of a batch.
static Array<double> corrected_cycles(const Layer& layer, const Correction& correction, const py::sequence& nest) {
    const Batch batch = batch_of(layer, nest);
    MappingPack pack(layer);
    Array<double> out(batch.size);
    for (std::size_t column = 0; column < batch.size; ++column) {
        pack_columns(layer, batch, column, 1, pack);
        out.mutable_data()[column] = correction.cycles(layer, pack, 0);
    }
    return out;
}

PYBIND11_MODULE(_parts, module) {
    module.def("unrounded_scores", &unrounded_scores);
    module.def("corrected_cycles", &corrected_cycles);
    module.def("closed_forms", &closed_forms);
    module.def("walk_held", &walked<&walk_held>);
    module.def("walk_unheld", &walked<&walk_unheld>);
    module.def("tile_walk", &tile_walk);
    module.def("find_linked", &linked);
    module.def("count_hops", &hops);
    const auto in = [](const char* name) { return py::arg(name); };
    module.def("refetched", &refetches, in("segment"), in("layer"), in("tile"), in("passing"), in("staying"), in("room"),
               in("sums_room"), py::arg("by") = 0);
    module.def("random_points", &random_points);
    module.def("all_neighbours", &all_neighbours);
    module.def("random_neighbours", &random_neighbours, in("layer"), in("space"), in("nest"), in("tries"), in("seed"),
               py::arg("resplit_rate") = 0);
    module.def("layouts_fitted", &layouts_fitted);
}

}  // namespace fadiff
