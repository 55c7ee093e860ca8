#include "residual_bindings.hpp"

#include <algorithm>
#include <limits>

#include "bindings.hpp"
#include "checks.hpp"
#include "residual_walk.hpp"

namespace py = pybind11;

namespace fadiff {

// Iterations of one loop, and coordinates of one rank, that the walk tells apart. Mappings with more are not walked.
constexpr double MOST_ITERATIONS = 1 << 30, MOST_COORDINATES = 0x1p52;

static bool is_countable(const Layer& layer, const Mapping& mapping) {
    std::vector<double> points(layer.dims, 1.0);
    for (std::size_t at = 0; at < mapping.factor.size(); ++at) {
        if (!(mapping.factor[at] <= MOST_ITERATIONS)) return false;
        points[at % layer.dims] *= mapping.factor[at];
    }
    for (const DataSpace& space : layer.spaces)
        for (const Rank& rank : space.ranks)
            if (!(extent(rank, points.data()) <= MOST_COORDINATES)) return false;
    return std::all_of(points.begin(), points.end(), [](double own) { return own <= MOST_COORDINATES; });
}

// The residuals of one column, in the places of Mapping::factor.
static void read_residuals(const Layer& layer, const Batch& batch, const double* temporal, const double* spatial,
                           std::size_t column, std::vector<double>& last) {
    for (int level = 0; level < layer.levels; ++level)
        for (int d = 0; d < layer.dims; ++d) {
            const std::size_t from = (std::size_t(level) * layer.dims + d) * batch.batch + column;
            const std::size_t to = std::size_t(2 * level) * layer.dims + d;
            last[to] = spatial[from], last[to + layer.dims] = temporal[from];
            need(spatial[from] >= 1 && spatial[from] <= batch.spatial[from] && temporal[from] >= 1
                     && temporal[from] <= batch.temporal[from],
                 "temporal_last, spatial_last");
        }
}

// The traffic before bypassing of a batch: by kind of transfer, each [K][L][T][B], words, multicast, scatter, words times
// hops; links [L][T][B]; calls of the walk [B].
static py::tuple residual_traffic(const Layer& layer, const Array<double>& temporal, const Array<double>& spatial,
                                  const Array<std::int64_t>& order, const Array<bool>& keep, const Array<bool>& on_y,
                                  const Array<std::int64_t>& spatial_order, const Array<double>& temporal_last,
                                  const Array<double>& spatial_last, bool with_hops) {
    const BatchView batch(layer, temporal, spatial, order, keep, on_y, spatial_order);
    const std::size_t size = batch.batch, cells = std::size_t(layer.levels) * layer.tensors;
    const double* last_in_time = cells_of(temporal_last, layer.levels, layer.dims, size, "temporal_last");
    const double* last_in_space = cells_of(spatial_last, layer.levels, layer.dims, size, "spatial_last");
    std::vector<ResidualTraffic> found(size);
    std::size_t kinds = 1;
    {
        py::gil_scoped_release release;
        Mapping mapping(layer);
        std::vector<double> last(mapping.factor.size());
        for (std::size_t column = 0; column < size; ++column) {
            check_columns(layer, batch, column, 1);
            read_columns(layer, batch, column, 1, &mapping);
            read_residuals(layer, batch, last_in_time, last_in_space, column, last);
            if (!is_countable(layer, mapping)) {
                found[column].calls = std::numeric_limits<double>::infinity();
                continue;
            }
            found[column] = ResidualWalk(layer, mapping, last, with_hops).run();
            for (const Tally& tally : found[column].tally) kinds = std::max(kinds, tally.size());
        }
    }
    const std::vector<std::size_t> shape{kinds, std::size_t(layer.levels), std::size_t(layer.tensors), size};
    const std::vector<std::size_t> plain(shape.begin() + 1, shape.end());
    Array<double> words(shape), multicast(shape), scatter(shape), hop_words(shape);
    Array<double> links(plain), calls(size);
    double *parts[] = {words.mutable_data(), multicast.mutable_data(), scatter.mutable_data(), hop_words.mutable_data()};
    for (std::size_t column = 0; column < size; ++column) {
        ResidualTraffic& own = found[column];
        own.tally.resize(cells), own.links.resize(cells);
        for (std::size_t at = 0; at < cells; ++at) {
            for (std::size_t kind = 0; kind < kinds; ++kind) {
                const Kind one = kind < own.tally[at].size() ? own.tally[at][kind] : Kind{1, 1, 0, 0};
                const std::size_t to = (kind * cells + at) * size + column;
                parts[0][to] = one.words, parts[1][to] = one.multicast;
                parts[2][to] = one.scatter, parts[3][to] = one.hop_words;
            }
            links.mutable_data()[at * size + column] = own.links[at];
        }
        calls.mutable_data()[column] = own.calls;
    }
    return py::make_tuple(words, multicast, scatter, hop_words, links, calls);
}

void add_residuals(py::module_& module) { module.def("residual_traffic", &residual_traffic); }

}  // namespace fadiff
