#include "parts.hpp"

#include <algorithm>

#include "bindings.hpp"
#include "checks.hpp"
#include "moves.hpp"
#include "traffic.hpp"

namespace py = pybind11;

namespace fadiff {

using Indices = Array<std::int64_t>;

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

static py::tuple words_of(double plain, const WindowWalk& walk, std::size_t count) {
    return py::make_tuple(plain, Array<double>(count, walk.repeated.data()));
}

static py::tuple held(const Array<double>& bounds, const Array<double>& moves, const Array<double>& extent) {
    WindowWalk walk = walk_over(bounds, moves, extent);
    const double plain = walk_held(bounds.data(), int(bounds.size()), walk);
    return words_of(plain, walk, bounds.size());
}

static py::tuple unheld(const Array<double>& bounds, const Array<double>& moves, const Array<double>& extent) {
    WindowWalk walk = walk_over(bounds, moves, extent);
    const double plain = walk_unheld(bounds.data(), int(bounds.size()), walk);
    return words_of(plain, walk, bounds.size());
}

// The walk of one tile of the first mapping of a batch: (bounds [S], moves [S][R], extent [R], words, several move one rank).
static py::tuple tile_walk(const Layer& layer, const py::sequence& nest, int level, int tensor) {
    const DenseBatch batch(layer, nest);
    fit(batch.batch > 0, "batch");
    if (level < 0 || level >= layer.levels || tensor < 0 || tensor >= layer.tensors)
        throw std::invalid_argument("level, tensor: out of range");
    check_columns(layer, batch, 0, 1);
    Mapping mapping(layer);
    read_columns(layer, batch, 0, 1, &mapping);
    MappingPack pack(layer);
    pack_mapping(layer, mapping, pack);
    Tiles tiles(layer);
    lay_tiles(layer, pack, tiles);
    Loops loops(layer);
    line_up(layer, pack, tiles, 0, loops);
    FanOut fan_out(layer);
    spread_out(layer, pack, tiles, 0, level, fan_out);
    const DataSpace& space = layer.spaces[tensor];
    WindowWalk walk;
    start_walk(layer, space, loops, fan_out, walk);
    const py::ssize_t first = loops.start[level], count = loops.count - first;
    return py::make_tuple(Array<double>(count, loops.bound.data() + first),
                          Array<double>({count, py::ssize_t(walk.ranks)}, walk.moves.data()),
                          Array<double>(walk.ranks, walk.extent.data()), walk.words,
                          several_move_one_rank(layer, pack, space, level)[0]);
}

// Receivers row by row in a grid that has room for them all.
static Grid grid_over(std::size_t count, int width, int height) {
    need(count <= MOST_RECEIVERS && width <= MOST_UNITS && height <= MOST_UNITS, "receivers of the grid");
    fit(count > 0 && width > 0 && height > 0 && count <= std::size_t(width) * height, "receivers of the grid");
    Grid grid;
    grid.count = int(count);
    grid.width = width;
    grid.height = height;
    grid.linked.assign(count, 0);
    return grid;
}

static int linked(const Array<double>& offsets, int width, int height, const Array<double>& move) {
    fit(offsets.ndim() == 2, "offsets");
    fit(move.ndim() == 1 && move.shape(0) == offsets.shape(1), "move");
    Grid grid = grid_over(offsets.shape(0), width, height);
    grid.coordinates = int(offsets.shape(1));
    grid.offset.assign(offsets.data(), offsets.data() + offsets.size());
    return find_linked(grid, move.data(), grid.coordinates);
}

// Receivers outside every group (negative) are those that a neighbour serves.
static Array<double> hops(const Array<std::int64_t>& group, int width, int height) {
    fit(group.ndim() == 1, "group");
    Grid grid = grid_over(group.size(), width, height);
    grid.group.assign(group.size(), 0);
    for (int e = 0; e < grid.count; ++e) {
        const std::int64_t own = group.data()[e];
        if (own >= grid.count) throw std::invalid_argument("group: out of range");
        grid.linked[e] = own < 0;
        grid.group[e] = int(std::max<std::int64_t>(own, 0));
        grid.groups = std::max(grid.groups, grid.group[e] + 1);
    }
    count_hops(grid);
    return Array<double>(grid.hops.size(), grid.hops.data());
}

// Points as the arrays of a Nest, the numbers of their divisors [P][D][B], and the column that each came from [B].
static py::tuple arrays_of(const Layer& layer, const MapSpace& space, const std::vector<Point>& points,
                           const std::vector<std::int64_t>& row) {
    const py::ssize_t size = points.size(), levels = layer.levels, dims = layer.dims;
    Indices number({2 * levels, dims, size});
    const NewBatch made(layer, size, space.residual());
    for (py::ssize_t b = 0; b < size; ++b) {
        write_column(layer, points[b].mapping, made.out, b);
        for (std::size_t at = 0; at < points[b].number.size(); ++at)
            number.mutable_data()[at * size + b] = points[b].number[at];
    }
    return py::tuple(made.arrays() + py::make_tuple(number, Indices(row.size(), row.data())));
}

static py::tuple random_points(const Layer& layer, const py::dict& table, int count, std::uint64_t seed) {
    const MapSpace space = map_space_of(table, layer);
    Random random(seed);
    std::vector<Point> points(std::max(count, 0), Point(layer));
    std::vector<std::int64_t> row(points.size());
    for (std::size_t b = 0; b < points.size(); ++b) draw_point(layer, space, int(b), random, points[b]), row[b] = b;
    return arrays_of(layer, space, points, row);
}

// What `change(space, point, random, take)` hands to `take` for every mapping of a batch.
template <typename Change>
static py::tuple changed(const Layer& layer, const py::dict& table, const Batch& batch, std::uint64_t seed, Change change) {
    const MapSpace space = map_space_of(table, layer);
    check_columns(layer, batch, 0, int(batch.batch));
    Random random(seed);
    std::vector<Point> points;
    std::vector<std::int64_t> row;
    Mapping mapping(layer);
    for (std::size_t b = 0; b < batch.batch; ++b) {
        read_columns(layer, batch, b, 1, &mapping);
        change(space, point_of(layer, space, mapping), random,
               [&](const Point& point) { points.push_back(point), row.push_back(b); });
    }
    return arrays_of(layer, space, points, row);
}

static py::tuple random_neighbours(const Layer& layer, const py::dict& table, const py::sequence& nest, int tries,
                                   std::uint64_t seed, double divided) {
    const BatchView batch(layer, nest);
    return changed(layer, table, batch, seed, [&](const MapSpace& space, const Point& from, Random& random, auto take) {
        Point point = from;
        Changes changes;
        for (int i = 0; i < tries; ++i) {
            if (move(layer, space, from, divided, random, point, changes)) take(point);
            take_back(space, from, changes, point);
        }
    });
}

static py::tuple all_neighbours(const Layer& layer, const py::dict& table, const py::sequence& nest, std::uint64_t seed) {
    const BatchView batch(layer, nest);
    return changed(layer, table, batch, seed, [&](const MapSpace& space, const Point& from, Random& random, auto take) {
        Point point = from;
        each_neighbour(layer, space, from, random, [&](const Changes& changes) {
            apply(space, changes, point);
            take(point);
            take_back(space, from, changes, point);
        });
    });
}

static py::tuple layouts_fitted(const Layer& layer, const py::dict& table, const py::sequence& nest, std::uint64_t seed) {
    const BatchView batch(layer, nest);
    return changed(layer, table, batch, seed, [&](const MapSpace& space, Point point, Random& random, auto take) {
        Changes changes;
        fit_layouts(layer, space, random, point, changes);
        take(point);
    });
}

void add_parts(py::module_& module) {
    module.def("walk_held", &held);
    module.def("walk_unheld", &unheld);
    module.def("tile_walk", &tile_walk);
    module.def("find_linked", &linked);
    module.def("count_hops", &hops);
    module.def("random_points", &random_points);
    const auto in = [](const char* name) { return py::arg(name); };
    module.def("random_neighbours", &random_neighbours, in("layer"), in("space"), in("nest"), in("tries"),
               in("seed"), py::arg("divided") = 0);
    module.def("all_neighbours", &all_neighbours);
    module.def("layouts_fitted", &layouts_fitted);
}

}  // namespace fadiff
