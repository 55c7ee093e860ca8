#include "sparse_bindings.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>

#include "bindings.hpp"
#include "one_call.hpp"
#include "pack_columns.hpp"
#include "sparse.hpp"

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
    level.spatial_skipping = choices_of(table["spatial_skipping"], tensors);
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

static std::shared_ptr<SparseDesign> design_of(const Layer& layer, const py::dict& table) {
    auto design = std::make_shared<SparseDesign>();
    design->layer = layer;
    design->wires = wires_of(layer);
    for (const py::handle& level : table["levels"]) design->levels.push_back(level_of(py::reinterpret_borrow<py::dict>(level), layer.tensors));
    for (const py::handle& format : table["formats"]) design->formats.push_back(representation_of(format));
    if (int(design->levels.size()) != layer.levels || int(design->formats.size()) != layer.levels * layer.tensors)
        throw std::invalid_argument("levels, formats: wrong length");
    if (layer.levels > MOST_LEVELS || 2 * layer.levels * layer.dims > MOST_LOOPS || layer.tensors > 64 || layer.dims > MOST_DIMS)
        throw std::invalid_argument("the design is too large for the compiled evaluation");
    for (const Representation& format : design->formats) design->formatted |= !format.ranks.empty();
    for (const SparseLevel& level : design->levels) design->skips_instances |= !level.spatial_skipping.empty();
    design->gates_computes = table["gates_computes"].cast<bool>();
    design->skips_computes = table["skips_computes"].cast<bool>();
    design->computes = table["computes"].cast<double>();
    take(table, "compute_energy", design->compute_energy, HAPPENINGS);
    design->models = table["models"].cast<std::vector<DensityModel>>();
    if (int(design->models.size()) != layer.tensors) throw std::invalid_argument("models: wrong length");
    for (int t = 0; t < layer.tensors; ++t)
        if (design->models[t].kind == DensityModel::BANDED && layer.spaces[t].ranks.size() != 2)
            throw std::invalid_argument("models: a band of a tensor that is not of two ranks");
    design->operand_density.resize(layer.tensors);
    take(table, "operand_density", design->operand_density.data(), layer.tensors);
    return design;
}

// Scores a batch into out [5][B]: cycles, energy, last level accesses, excess, legal.
static void score_sparse(Evaluator& evaluator, const py::sequence& nest, Array<double>& out) {
    const Layer& layer = evaluator.layer();
    const DenseBatch batch(layer, nest);
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

// The extents of a tile along the ranks of its tensor.
static Box box_from(const std::vector<double>& extents) {
    Box box;
    for (double extent : extents) {
        if (!(extent >= 1)) throw std::invalid_argument("tile: extents below 1");
        box.words *= extent;
    }
    if (extents.size() == 2) box.rows = extents[0];
    return box;
}

static DensityModel model_of(const std::string& distribution, double density, std::int64_t band_width,
                             const std::vector<double>& tensor) {
    DensityModel model;
    model.density = density, model.band_width = band_width, model.tensor = box_from(tensor);
    model.nonzeros = std::ceil(density * model.tensor.words);
    if (distribution == "fixed_structured") return model;
    if (!(model.tensor.words < 0x1p53)) throw Aborted("a tensor of 2^53 words or more has a fixed structure alone");
    model.kind = distribution == "banded" ? DensityModel::BANDED : DensityModel::HYPERGEOMETRIC;
    const bool square = tensor.size() == 2 && tensor[0] == tensor[1];
    if (model.kind == DensityModel::BANDED && !(square && band_width < std::int64_t(0x1p53) && model.expected(Box()) >= 0)) {
        std::string shape;
        for (double extent : tensor) shape += (shape.empty() ? "" : " x ") + std::to_string(std::int64_t(extent));
        throw Aborted("Timeloop aborts on a banded density of band width " + std::to_string(band_width) + " for a tensor of "
                      + shape + " words; accepted: a square matrix of two ranks, at least half as large as the band is wide");
    }
    return model;
}

static py::array_t<double> array_of(const sparse::Numbers& numbers) { return py::array_t<double>(numbers.size(), numbers.data()); }

static void add_density(py::module_& module) {
    static PyObject* const error = py::object(py::module_::import("fadiff_mapper.base.errors").attr("FadiffError")).release().ptr();
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const Aborted& aborted) {
            PyErr_SetString(error, aborted.what());
        }
    });
    using Extents = std::vector<double>;
    py::class_<DensityModel>(module, "DensityModel")
        .def(py::init(&model_of), py::arg("distribution"), py::arg("density"), py::arg("band_width"), py::arg("tensor"))
        .def_property_readonly("kind", [](const DensityModel& own) {
            return own.kind == DensityModel::FIXED ? "fixed_structured"
                : own.kind == DensityModel::BANDED ? "banded" : "hypergeometric";
        })
        .def_readonly("density", &DensityModel::density)
        .def_readonly("nonzeros", &DensityModel::nonzeros)
        .def_property_readonly("words", [](const DensityModel& own) { return own.tensor.words; })
        .def("__repr__", [](const DensityModel& own) {
            return py::str("DensityModel{}").format(py::make_tuple(int(own.kind), own.density, own.nonzeros, own.band_width,
                                                                   own.tensor.words, own.tensor.rows));
        })
        .def("histogram", [](const DensityModel& own, const Extents& tile) {
            const Histogram found = own.histogram(box_from(tile));
            return py::make_tuple(array_of(found.occupancies), array_of(found.probabilities));
        })
        .def("least", [](const DensityModel& own, const Extents& tile) { return own.least(box_from(tile)); })
        .def("most", [](const DensityModel& own, const Extents& tile) { return own.most(box_from(tile)); })
        .def("expected", [](const DensityModel& own, const Extents& tile) { return own.expected(box_from(tile)); })
        .def("empty", [](const DensityModel& own, const Extents& tile) { return own.empty(box_from(tile)); })
        .def("empty_within", [](const DensityModel& own, const Extents& tile, const Extents& outer, const Extents& occupancies) {
            return array_of(own.empty_within(box_from(tile), box_from(outer), occupancies));
        })
        .def("most_elements", [](const DensityModel& own, const Extents& fiber, const Extents& element) {
            return own.most_elements(box_from(fiber), box_from(element));
        });
}

void add_sparse(py::module_& module) {
    add_density(module);
    module.attr("MOST_RANKS") = MOST_RANKS, module.attr("MOST_LEVELS") = MOST_LEVELS, module.attr("MOST_LOOPS") = MOST_LOOPS;
    module.attr("REJECTED") = REJECTED;
    py::class_<SparseDesign, std::shared_ptr<SparseDesign>>(module, "SparseTables").def(py::init(&design_of));
    py::class_<OneCall<Evaluator>>(module, "SparseEvaluator")
        .def(py::init([](std::shared_ptr<SparseDesign> design) {
            return std::make_unique<OneCall<Evaluator>>(std::move(design));
        }), py::arg("design").none(false))
        .def("score", one_call(&score_sparse), py::arg("nest"), py::arg("out").noconvert());
}

Chains::Evaluate sparse_evaluation(const py::object& design) {
    if (design.is_none()) return nullptr;
    const auto evaluator = std::make_shared<Evaluator>(design.cast<std::shared_ptr<SparseDesign>>());
    return [evaluator](Workspace& work, Scores* scores) { evaluator->evaluate(work, scores); };
}

}  // namespace fadiff
