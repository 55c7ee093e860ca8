// The Python module `fadiff_mapper.kernel._kernel`: NumPy arrays in, NumPy arrays out.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "evaluate.hpp"

namespace py = pybind11;
using namespace fadiff;

template <typename T>
using Array = py::array_t<T, py::array::c_style>;

namespace {

using Terms = std::vector<std::pair<int, double>>;

std::vector<DataSpace> data_spaces(const std::vector<std::vector<Terms>>& ranks, const std::vector<bool>& written,
                                   int dims) {
    std::vector<DataSpace> spaces;
    for (std::size_t t = 0; t < ranks.size(); ++t) {
        DataSpace space;
        space.written = written[t];
        space.move.assign(ranks[t].size() * dims, 0.0);
        for (std::size_t r = 0; r < ranks[t].size(); ++r) {
            Rank rank;
            rank.surplus = -1;
            for (auto [dim, coefficient] : ranks[t][r]) {
                rank.terms.push_back({dim, coefficient});
                rank.dims |= Dims(1) << dim;
                rank.surplus += coefficient;
                space.move[r * dims + dim] += coefficient;
            }
            space.relevant |= rank.dims;
            if (rank.terms.size() > 1) space.windowed = true, space.shared |= rank.dims;
            space.ranks.push_back(rank);
        }
        spaces.push_back(space);
    }
    return spaces;
}

template <typename T>
void take(std::vector<T>& into, const py::dict& table, const char* name, std::size_t length) {
    auto values = table[name].cast<std::vector<double>>();
    if (values.size() != length) throw std::invalid_argument(std::string(name) + ": wrong length");
    into.assign(values.begin(), values.end());
}

// A layer from a dictionary of lists, see model/exact/compiled_layer.py.
Layer layer_of(const py::dict& table) {
    Layer layer;
    layer.levels = table["levels"].cast<int>();
    layer.dims = table["dims"].cast<int>();
    layer.spaces = data_spaces(table["ranks"].cast<std::vector<std::vector<Terms>>>(),
                               table["written"].cast<std::vector<bool>>(), layer.dims);
    layer.tensors = int(layer.spaces.size());
    if (layer.dims > 64) throw std::invalid_argument("more than 64 dimensions");
    const std::size_t levels = layer.levels, cells = levels * layer.tensors;
    for (auto [instances, x, y] : table["units"].cast<std::vector<std::tuple<double, double, double>>>())
        layer.units.push_back({instances, x, y});
    if (layer.units.size() != levels + 1) throw std::invalid_argument("units: wrong length");
    take(layer.usable, table, "usable", levels);
    take(layer.least, table, "least", levels);
    take(layer.fanout_x, table, "fanout_x", levels);
    take(layer.fanout_y, table, "fanout_y", levels);
    take(layer.clusters, table, "clusters", levels);
    take(layer.block, table, "block", levels);
    take(layer.read, table, "read", levels);
    take(layer.fill, table, "fill", levels);
    take(layer.update, table, "update", levels);
    take(layer.leak, table, "leak", levels);
    take(layer.address, table, "address", levels);
    take(layer.read_bandwidth, table, "read_bandwidth", levels);
    take(layer.write_bandwidth, table, "write_bandwidth", levels);
    take(layer.shared_bandwidth, table, "shared_bandwidth", levels);
    take(layer.gated, table, "gated", levels);
    take(layer.gate, table, "gate", levels);
    take(layer.bandwidth_scale, table, "bandwidth_scale", cells);
    take(layer.held, table, "held", cells);
    take(layer.multicast, table, "multicast", cells);
    take(layer.hop, table, "hop", levels);
    take(layer.router, table, "router", levels);
    take(layer.ingress, table, "ingress", levels);
    take(layer.reduces, table, "reduces", levels);
    layer.compute_energy = table["compute_energy"].cast<double>();
    layer.network_latency = table["network_latency"].cast<double>();
    for (std::size_t level = 0; level < levels; ++level)
        layer.priced |= layer.hop[level] != 0 || layer.router[level] != 0 || layer.ingress[level] != 0;
    return layer;
}

template <typename T>
const T* cells_of(const Array<T>& array, int levels, int rows, std::size_t batch, const char* name) {
    if (array.ndim() != 3 || array.shape(0) != levels || array.shape(1) != rows || std::size_t(array.shape(2)) != batch)
        throw std::invalid_argument(std::string(name) + ": wrong shape");
    return array.data();
}

struct BatchView : Batch {
    BatchView(const Layer& layer, const Array<double>& temporal, const Array<double>& spatial,
              const Array<std::int64_t>& order, const Array<bool>& keep, const Array<bool>& on_y,
              const Array<std::int64_t>& spatial_order) {
        batch = std::size_t(temporal.ndim() == 3 ? temporal.shape(2) : 0);
        this->temporal = cells_of(temporal, layer.levels, layer.dims, batch, "temporal");
        this->spatial = cells_of(spatial, layer.levels, layer.dims, batch, "spatial");
        this->order = cells_of(order, layer.levels, layer.dims, batch, "order");
        this->keep = cells_of(keep, layer.levels, layer.tensors, batch, "keep");
        this->on_y = cells_of(on_y, layer.levels, layer.dims, batch, "on_y");
        this->spatial_order = cells_of(spatial_order, layer.levels, layer.dims, batch, "spatial_order");
    }
};

constexpr int SIDE_BY_SIDE = 8;  // columns read at once: doubles of one cache line

// Scores columns first to last of a batch into out [5][B]: cycles, energy, last level accesses, excess, legal.
void score(const Layer& layer, const Array<double>& temporal, const Array<double>& spatial,
           const Array<std::int64_t>& order, const Array<bool>& keep, const Array<bool>& on_y,
           const Array<std::int64_t>& spatial_order, const py::object& room_words, const py::object& room_counted,
           Array<double>& out, std::size_t first, std::size_t last, bool all) {
    const BatchView batch(layer, temporal, spatial, order, keep, on_y, spatial_order);
    const std::size_t size = batch.batch;
    if (last > size || out.ndim() != 2 || out.shape(0) != 5 || std::size_t(out.shape(1)) != size)
        throw std::invalid_argument("out: wrong shape");
    double* rows = out.mutable_data();
    const double* words = nullptr;
    const bool* counted = nullptr;
    Array<double> words_array;
    Array<bool> counted_array;
    if (!room_words.is_none()) {
        words_array = room_words.cast<Array<double>>();
        counted_array = room_counted.cast<Array<bool>>();
        if (words_array.ndim() != 2 || words_array.shape(0) != layer.levels || std::size_t(words_array.shape(1)) != size)
            throw std::invalid_argument("room: wrong shape");
        words = words_array.data();
        counted = cells_of(counted_array, layer.levels, layer.tensors, size, "room");
    }
    py::gil_scoped_release release;
    Workspace work(layer);
    std::vector<Mapping> mappings(SIDE_BY_SIDE, Mapping(layer));
    Room room{std::vector<double>(layer.levels), std::vector<std::uint8_t>(std::size_t(layer.levels) * layer.tensors)};
    for (std::size_t column = first; column < last; column += SIDE_BY_SIDE) {
        const int count = int(std::min<std::size_t>(SIDE_BY_SIDE, last - column));
        read_columns(layer, batch, column, count, mappings.data());
        for (int i = 0; i < count; ++i) {
            if (words) {
                for (int level = 0; level < layer.levels; ++level) room.words[level] = words[level * size + column + i];
                for (std::size_t cell = 0; cell < room.counted.size(); ++cell)
                    room.counted[cell] = counted[cell * size + column + i];
            }
            const Scores scores = evaluate(layer, mappings[i], words ? &room : nullptr, all, work);
            double* at = rows + column + i;
            at[0] = scores.cycles, at[size] = scores.energy, at[2 * size] = scores.last_level_accesses;
            at[3 * size] = scores.excess, at[4 * size] = scores.legal;
        }
    }
}

}  // namespace

PYBIND11_MODULE(_kernel, module) {
    py::class_<Layer>(module, "Layer").def(py::init(&layer_of));
    module.def("score", &score);
}
