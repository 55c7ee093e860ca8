#include "sparse_bindings.hpp"

#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.hpp"
#include "hypergeometric.hpp"
#include "one_call.hpp"
#include "pack_columns.hpp"
#include "sparse_score.hpp"

namespace py = pybind11;

namespace fadiff {

using namespace sparse;

static void take(const py::dict& table, const char* name, double* into, std::size_t length) {
    const auto values = table[name].cast<std::vector<double>>();
    if (values.size() != length) throw std::invalid_argument(std::string(name) + ": wrong length");
    std::copy(values.begin(), values.end(), into);
}

static std::vector<Choice> choices_of(const py::handle& table, int tensors) {
    std::vector<Choice> choices;
    for (const auto& group : table.cast<std::vector<std::vector<std::pair<int, std::vector<int>>>>>()) {
        choices.emplace_back();
        for (const auto& [target, leaders] : group) {
            for (int t : leaders)
                if (t < 0 || t >= tensors) throw std::invalid_argument("leaders: out of range");
            if (target < 0 || target >= tensors) throw std::invalid_argument("target: out of range");
            choices.back().push_back({target, leaders});
        }
        if (choices.back().empty()) throw std::invalid_argument("choices: one without an option");
    }
    return choices;
}

static SparseLevel level_of(const py::dict& table, int tensors) {
    SparseLevel level;
    level.decompresses = table["decompresses"].cast<bool>();
    level.compresses = table["compresses"].cast<bool>();
    level.metadata_limit = table["metadata_limit"].cast<double>();
    level.word_bits = table["word_bits"].cast<double>();
    level.metadata_width = table["metadata_width"].cast<double>();
    level.metadata_word_bits = table["metadata_word_bits"].cast<double>();
    take(table, "data", &level.data[0][0], HAPPENINGS * ACCESSES);
    take(table, "metadata", &level.metadata[0][0], HAPPENINGS * ACCESSES);
    level.decompression = table["decompression"].cast<double>();
    level.compression = table["compression"].cast<double>();
    level.leak = table["leak"].cast<double>();
    level.gating = choices_of(table["gating"], tensors);
    level.skipping = choices_of(table["skipping"], tensors);
    return level;
}

static Representation representation_of(const py::handle& table) {
    Representation format;
    if (table.is_none()) return format;
    const auto given = py::reinterpret_borrow<py::dict>(table);
    format.inner_to_outer = given["inner_to_outer"].cast<bool>();
    format.compressed = given["compressed"].cast<bool>();
    using Ranks = std::vector<std::tuple<int, std::vector<std::vector<int>>, double, double>>;
    for (const auto& [kind, groups, metadata_bits, payload_bits] : given["ranks"].cast<Ranks>()) {
        RankFormat rank{RankKind(kind), {}, metadata_bits, payload_bits};
        for (const auto& group : groups) {
            Dims dims = 0;
            for (int d : group) dims |= Dims(1) << d;
            rank.groups.push_back(dims);
        }
        format.ranks.push_back(rank);
    }
    if (int(format.ranks.size()) > MOST_RANKS) throw std::invalid_argument("ranks: too many");
    return format;
}

static Layer wires_of(Layer layer) {
    for (std::vector<double>* energies : {&layer.read, &layer.fill, &layer.update, &layer.leak, &layer.address})
        std::fill(energies->begin(), energies->end(), 0.0);
    layer.compute_energy = 0;
    return layer;
}

// The numbers of a tile from Python, see sparse/compiled_design.py.
static Occupancy tile_from(const py::function& callback, const TileShape& shape) {
    const py::gil_scoped_acquire acquire;
    const std::vector<double> fibers(shape.fibers, shape.fibers + shape.ranks);
    const std::vector<double> below(shape.below, shape.below + (shape.ranks ? shape.ranks + 1 : 0));
    const auto table = callback(shape.tensor, shape.level, shape.known_empty, shape.box, fibers, below).cast<py::dict>();
    Occupancy found;
    found.used = table["used"].cast<double>();
    found.density = table["density"].cast<double>();
    found.nonzeros = table["nonzeros"].cast<double>();
    found.metadata_units = table["metadata_units"].cast<double>();
    found.most_words = table["most_words"].cast<double>();
    found.most_bits = table["most_bits"].cast<double>();
    found.block_ratio = table["block_ratio"].cast<double>();
    found.aborts = table["aborts"].cast<bool>();
    found.rejected = table["rejected"].cast<bool>();
    int rank = 0;
    for (auto [metadata, payload] : table["units"].cast<std::vector<std::pair<double, double>>>())
        if (rank < MOST_RANKS) found.units[rank++] = {metadata, payload};
    return found;
}

static std::shared_ptr<SparseDesign> design_of(const Layer& layer, const py::dict& table) {
    auto design = std::make_shared<SparseDesign>();
    design->layer = layer;
    design->wires = wires_of(layer);
    for (const py::handle& level : table["levels"]) design->levels.push_back(level_of(py::reinterpret_borrow<py::dict>(level), layer.tensors));
    for (const py::handle& format : table["formats"]) design->formats.push_back(representation_of(format));
    if (int(design->levels.size()) != layer.levels || int(design->formats.size()) != layer.levels * layer.tensors)
        throw std::invalid_argument("levels, formats: wrong length");
    if (layer.levels > MOST_LEVELS || 2 * layer.levels * layer.dims > MOST_LOOPS || layer.tensors > 64)
        throw std::invalid_argument("the design is too large for the compiled evaluation");
    for (const Representation& format : design->formats) design->formatted |= !format.ranks.empty();
    design->gates_computes = table["gates_computes"].cast<bool>();
    design->skips_computes = table["skips_computes"].cast<bool>();
    design->computes = table["computes"].cast<double>();
    take(table, "compute_energy", design->compute_energy, HAPPENINGS);
    design->density.resize(layer.tensors), design->operand_density.resize(layer.tensors);
    take(table, "density", design->density.data(), layer.tensors);
    for (bool shaped : table["shaped"].cast<std::vector<bool>>()) design->shaped.push_back(shaped);
    for (int t = 0; t < layer.tensors; ++t)
        if (int(design->shaped.size()) != layer.tensors || (design->shaped[t] && layer.spaces[t].ranks.size() != 2))
            throw std::invalid_argument("shaped: wrong length, or not of two ranks");
    take(table, "operand_density", design->operand_density.data(), layer.tensors);
    design->occupancy_of = [callback = table["occupancy_of"].cast<py::function>()](const TileShape& shape) {
        return tile_from(callback, shape);
    };
    design->empty_of = [callback = table["empty_of"].cast<py::function>()](int tensor, double box) {
        const py::gil_scoped_acquire acquire;
        return callback(tensor, box).cast<double>();
    };
    return design;
}

// Scores a batch into out [5][B]: cycles, energy, last level accesses, excess, legal.
static void score_sparse(Evaluator& evaluator, const Array<double>& temporal, const Array<double>& spatial,
                         const Array<std::int64_t>& order, const Array<bool>& keep, const Array<bool>& on_y,
                         const Array<std::int64_t>& spatial_order, Array<double>& out) {
    const Layer& layer = evaluator.layer();
    const BatchView batch(layer, temporal, spatial, order, keep, on_y, spatial_order);
    const std::size_t size = batch.batch;
    if (out.ndim() != 2 || out.shape(0) != 5 || std::size_t(out.shape(1)) != size)
        throw std::invalid_argument("out: wrong shape");
    double* rows = out.mutable_data();
    Workspace work(layer, true);
    Scores scores[LANES];
    NearColumns columns(layer, batch, 0, size);
    for (std::size_t column = 0; column < size; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, size - column));
        const auto [near, within] = columns.at(column);
        pack_columns(layer, near, within, count, work.pack);
        evaluator.evaluate(work, scores);
        for (int i = 0; i < count; ++i) {
            double* at = rows + column + i;
            at[0] = scores[i].cycles, at[size] = scores[i].energy, at[2 * size] = scores[i].last_level_accesses;
            at[3 * size] = scores[i].excess, at[4 * size] = scores[i].legal;
        }
    }
}

// Probabilities [X] of x marked words in a tile where r [X] are marked in all; no numbers from where the steps run out.
static Array<double> hypergeometric(const Array<std::int64_t>& x, const Array<std::int64_t>& r, std::int64_t n,
                                    std::int64_t total, std::int64_t steps) {
    if (x.ndim() != 1 || r.ndim() != 1 || r.size() != x.size()) throw std::invalid_argument("r: wrong shape");
    Array<double> found(x.size());
    for (py::ssize_t i = 0; i < x.size(); ++i)
        found.mutable_data()[i] = double(ratio_of_factorials({x.data()[i], r.data()[i], n, total}, steps));
    return found;
}

void add_sparse(py::module_& module) {
    module.def("hypergeometric", &hypergeometric, py::arg("x"), py::arg("r"), py::arg("n"), py::arg("total"),
               py::arg("steps"));
    py::class_<SparseDesign, std::shared_ptr<SparseDesign>>(module, "SparseTables").def(py::init(&design_of));
    py::class_<OneCall<Evaluator>>(module, "SparseEvaluator")
        .def(py::init([](std::shared_ptr<SparseDesign> design) {
            return std::make_unique<OneCall<Evaluator>>(std::move(design));
        }))
        .def("score", one_call(&score_sparse), py::arg("temporal"), py::arg("spatial"), py::arg("order"),
             py::arg("keep"), py::arg("on_y"), py::arg("spatial_order"), py::arg("out").noconvert());
}

Chains::Evaluate sparse_evaluation(const py::object& design) {
    if (design.is_none()) return nullptr;
    const auto evaluator = std::make_shared<Evaluator>(design.cast<std::shared_ptr<SparseDesign>>());
    return [evaluator](Workspace& work, Scores* scores) { evaluator->evaluate(work, scores); };
}

}  // namespace fadiff
